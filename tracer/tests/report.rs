//! Saved runs render as they always did, fit their width, and obey the schema.

use std::path::{Path, PathBuf};

use lockscope::model::{self, Run};
use lockscope::report::text::{TextOptions, render};

const FIXTURES: [&str; 3] = ["vm-6.1-contended", "host-6.18-tracepoints", "interrupted-untraced"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).to_owned()
}

fn fixture(name: &str) -> Run {
    model::load(&root().join(format!("tests/fixtures/{name}.lockscope"))).unwrap()
}

#[test]
fn golden_reports() {
    for name in FIXTURES {
        let run = fixture(name);
        insta::assert_snapshot!(format!("{name}-100"), render(&run, &TextOptions::default()));
        let narrow = TextOptions { width: 80, ..TextOptions::default() };
        insta::assert_snapshot!(format!("{name}-80"), render(&run, &narrow));
    }
}

#[test]
fn every_line_fits_and_is_ascii() {
    for name in FIXTURES {
        let run = fixture(name);
        for width in [72, 80, 90, 100, 132, 200] {
            let text = render(&run, &TextOptions { width, ..TextOptions::default() });
            for line in text.lines() {
                assert!(line.len() <= width, "{name} at {width}: {line}");
                assert!(line.is_ascii(), "{name}: {line}");
                assert_eq!(line, line.trim_end(), "{name}: trailing space");
            }
        }
    }
}

#[test]
fn a_saved_run_loads_and_renders_the_same() {
    let directory = tempfile::tempdir().unwrap();
    for name in FIXTURES {
        let run = fixture(name);
        let path = directory.path().join("again.lockscope");
        model::save(&run, &path).unwrap();
        let again = model::load(&path).unwrap();
        assert_eq!(again, run);
        let options = TextOptions::default();
        assert_eq!(render(&again, &options), render(&run, &options));
    }
}
