//! The profile's stacks as flame graphs are made of: folded lines, or the graph itself.

use std::io;

use inferno::flamegraph::{Options, from_lines};

use crate::model::{Profile, ProfileFrame};

/// A line a stack, `side;command;outermost;…;innermost count`; kernel functions end in `_[k]`, as the
/// usual tools write them.
pub fn folded(profile: &Profile) -> String {
    lines(profile).iter().map(|line| line.clone() + "\n").collect()
}

/// A flame graph as SVG.
///
/// # Errors
/// There is no stack to draw.
pub fn flamegraph(profile: &Profile, title: &str) -> io::Result<String> {
    let mut options = Options::default();
    options.title = title.to_owned();
    options.subtitle = Some(format!("{} at {} Hz a CPU", profile.event, profile.frequency_hz));
    options.count_name = "samples".to_owned();
    options.deterministic = true;
    let mut svg = Vec::new();
    let lines = lines(profile);
    from_lines(&mut options, lines.iter().map(String::as_str), &mut svg)?;
    String::from_utf8(svg).map_err(io::Error::other)
}

fn lines(profile: &Profile) -> Vec<String> {
    let mut lines: Vec<String> = profile
        .stacks
        .iter()
        .map(|stack| {
            let frames = stack.frames.iter().rev();
            let frames =
                frames.filter_map(|frame| Some(name(profile.frames.get(*frame as usize)?)));
            let words = [word(&stack.side), word(&stack.command)].into_iter().chain(frames);
            let words: Vec<String> = words.collect();
            format!("{} {}", words.join(";"), stack.samples_count)
        })
        .collect();
    lines.sort();
    lines
}

fn name(frame: &ProfileFrame) -> String {
    match (frame.unknown.is_some(), frame.is_kernel()) {
        (true, _) => format!("[{}]", word(frame.object.trim_matches(['[', ']']))),
        (false, true) => format!("{}_[k]", word(&frame.symbol)),
        (false, false) => word(&frame.symbol),
    }
}

/// A semicolon or a line end would part what belongs together.
fn word(text: &str) -> String {
    text.replace([';', '\n', '\r'], ":")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ProfileStack;

    fn profile() -> Profile {
        let frame = |symbol: &str, object: &str, unknown: Option<&str>| ProfileFrame {
            symbol: symbol.to_owned(),
            object: object.to_owned(),
            unknown: unknown.map(str::to_owned),
        };
        let stack = |frames: &[u32], samples_count| ProfileStack {
            side: "server".to_owned(),
            command: "post;gres".to_owned(),
            samples_count,
            weight: samples_count,
            frames: frames.to_vec(),
        };
        Profile {
            frames: vec![
                frame("vfs_read", "[kernel]", None),
                frame("PostgresMain", "postgres", None),
                frame("[unknown]", "libx.so", Some("no_symbol")),
            ],
            stacks: vec![stack(&[0, 1], 7), stack(&[2, 1], 3)],
            event: "cycles".to_owned(),
            frequency_hz: 199,
            ..Profile::default()
        }
    }

    #[test]
    fn outermost_first_and_the_kernel_marked() {
        let expected = "server;post:gres;PostgresMain;[libx.so] 3\n\
                        server;post:gres;PostgresMain;vfs_read_[k] 7\n";
        assert_eq!(folded(&profile()), expected);
    }

    #[test]
    fn the_graph_names_the_functions_and_is_the_same_every_time() {
        let svg = flamegraph(&profile(), "a run").unwrap();
        for word in ["<svg", "PostgresMain", "vfs_read", "a run", "cycles at 199 Hz"] {
            assert!(svg.contains(word), "{word}");
        }
        assert_eq!(svg, flamegraph(&profile(), "a run").unwrap());
        assert!(flamegraph(&Profile::default(), "none").is_err());
    }
}
