//! Which scripts: `-f`, `-b`, `-S`, `-N` and `--workload`, in the order in which they are given.

use clap::{Arg, ArgAction, ArgMatches, Args, Command, Error, FromArgMatches};

use crate::load::script::Weighted;
use crate::load::workload::Workload;

/// pgbench's built-in scripts: name, description, workload.
pub const BUILTINS: [(&str, &str); 3] = [
    ("tpcb-like", "<builtin: TPC-B (sort of)>"),
    ("simple-update", "<builtin: simple update>"),
    ("select-only", "<builtin: select only>"),
];

/// A script that the command line names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Chosen {
    /// `-f`.
    File(Weighted),
    /// `-b`, `-S`, `-N`: one of [`BUILTINS`].
    Builtin {
        /// Its whole name.
        name: &'static str,
        /// Its share among the others.
        weight: u32,
    },
    /// `--workload`.
    Workload(&'static Workload),
}

/// What to print instead of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shown {
    /// The names of the built-in scripts.
    List,
    /// One of them.
    Script(&'static str),
}

/// The name that asks for the list of names.
const LIST: &str = "list";

/// The scripts that the command line names.
#[derive(Clone, Debug, Default)]
pub struct ScriptArgs {
    /// None: the default one.
    pub chosen: Vec<Chosen>,
    /// Only the list of the built-in ones is wanted (`-b list`).
    pub list: bool,
}

/// A built-in by its name or an unambiguous beginning of it, as pgbench takes it.
pub(super) fn builtin(name: &str) -> Result<&'static str, String> {
    let known = || BUILTINS.map(|(name, _)| name).join(", ");
    let mut found =
        BUILTINS.iter().map(|(known, _)| *known).filter(|known| known.starts_with(name));
    match (found.next(), found.next()) {
        _ if name.is_empty() => Err(format!("known built-in scripts are {}", known())),
        (Some(name), None) => Ok(name),
        (None, _) => Err(format!("no built-in script begins so; known are {}", known())),
        (Some(_), Some(_)) => {
            Err(format!("several built-in scripts begin so; known are {}", known()))
        }
    }
}

/// A built-in to show, or all their names.
pub(super) fn shown(name: &str) -> Result<Shown, String> {
    if name == LIST { Ok(Shown::List) } else { builtin(name).map(Shown::Script) }
}

/// Absent for the list.
fn weighted_builtin(text: &str) -> Result<Option<Chosen>, String> {
    if text == LIST {
        return Ok(None);
    }
    let Weighted { name, weight } = text.parse()?;
    Ok(Some(Chosen::Builtin { name: builtin(&name)?, weight }))
}

fn file(text: &str) -> Result<Chosen, String> {
    text.parse().map(Chosen::File)
}

fn workload(text: &str) -> Result<Chosen, String> {
    text.parse()
        .map(Chosen::Workload)
        .map_err(|error: crate::load::workload::UnknownWorkload| error.to_string())
}

impl Args for ScriptArgs {
    fn augment_args(command: Command) -> Command {
        let flag = |id, letter: char, help| {
            Arg::new(id).short(letter).long(id).help(help).action(ArgAction::SetTrue)
        };
        command
            .arg(
                Arg::new("workload")
                    .long("workload")
                    .value_name("NAME")
                    .help("Built-in workload, tpcb-like by default; `lockscope workloads` lists them")
                    .value_parser(workload)
                    .conflicts_with_all(["file", "builtin", "select-only", "skip-some-updates"]),
            )
            .arg(
                Arg::new("file")
                    .short('f')
                    .long("file")
                    .visible_alias("script")
                    .value_name("FILE[@WEIGHT]")
                    .help("Run the script in FILE, this often among the others (may be repeated; - is standard input)")
                    .action(ArgAction::Append)
                    .value_parser(file),
            )
            .arg(
                Arg::new("builtin")
                    .short('b')
                    .long("builtin")
                    .value_name("NAME[@WEIGHT]")
                    .help("Run pgbench's built-in script: tpcb-like, simple-update or select-only; list names them (may be repeated)")
                    .action(ArgAction::Append)
                    .value_parser(weighted_builtin),
            )
            .arg(flag("select-only", 'S', "The script select-only, as -b select-only"))
            .arg(flag("skip-some-updates", 'N', "The script simple-update, as -b simple-update"))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for ScriptArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let mut placed = Vec::new();
        for id in ["workload", "file"] {
            let indices = matches.indices_of(id).into_iter().flatten();
            let values = matches.get_many::<Chosen>(id).into_iter().flatten().cloned();
            placed.extend(indices.zip(values));
        }
        let builtins = matches.get_many::<Option<Chosen>>("builtin").into_iter().flatten();
        let list = builtins.clone().any(Option::is_none);
        let indices = matches.indices_of("builtin").into_iter().flatten();
        placed.extend(indices.zip(builtins.flatten().cloned()));
        for (id, name) in [("select-only", "select-only"), ("skip-some-updates", "simple-update")] {
            if matches.get_flag(id) {
                let index = matches.indices_of(id).and_then(|mut indices| indices.next());
                placed.push((index.unwrap_or_default(), Chosen::Builtin { name, weight: 1 }));
            }
        }
        placed.sort_by_key(|(index, _)| *index);
        let chosen = placed.into_iter().map(|(_, chosen)| chosen).collect();
        Ok(Self { chosen, list })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        scripts: ScriptArgs,
    }

    fn chosen(arguments: &str) -> Result<Vec<Chosen>, String> {
        let words = ["x"].into_iter().chain(arguments.split_whitespace());
        Line::try_parse_from(words).map(|line| line.scripts.chosen).map_err(|e| e.to_string())
    }

    #[test]
    fn scripts_keep_their_order_and_weights() {
        let file = |name: &str, weight| Chosen::File(Weighted { name: name.to_owned(), weight });
        let builtin = |name, weight| Chosen::Builtin { name, weight };
        assert_eq!(
            chosen("-f b.sql@3 -S -b tpcb@2 -f a.sql -N").unwrap(),
            [
                file("b.sql", 3),
                builtin("select-only", 1),
                builtin("tpcb-like", 2),
                file("a.sql", 1),
                builtin("simple-update", 1),
            ]
        );
        assert_eq!(chosen("").unwrap(), []);
    }

    #[test]
    fn the_list_may_be_asked_for() {
        let line = Line::try_parse_from(["x", "-b", "list"]).unwrap();
        assert!(line.scripts.list);
        assert_eq!(
            (shown("list"), shown("se")),
            (Ok(Shown::List), Ok(Shown::Script("select-only")))
        );
    }

    #[test]
    fn names_are_completed_as_pgbench_does() {
        assert_eq!(builtin("se"), Ok("select-only"));
        for (name, word) in [("s", "several"), ("x", "no built-in"), ("", "known")] {
            let error = builtin(name).unwrap_err();
            assert!(error.contains(word) && error.contains("simple-update"), "{error}");
        }
        assert!(chosen("-b tpcb@x").unwrap_err().contains("weight"));
        assert!(chosen("--workload tpcb-like -S").unwrap_err().contains("cannot be used with"));
    }
}
