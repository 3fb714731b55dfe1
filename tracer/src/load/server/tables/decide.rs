//! What to do about the tables that are there.

use super::existing::Existing;
use super::{TABLES, TableOptions, TablesError};

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Use { scale: u32 },
    Create { scale: u32 },
}

pub(super) fn decide(existing: &Existing, options: TableOptions) -> Result<Action, TablesError> {
    let create = || match &existing.no_table {
        Some((name, kind)) => Err(TablesError::NoTable { name: name.clone(), kind }),
        None => Ok(Action::Create { scale: options.scale.unwrap_or(options.usual_scale.max(1)) }),
    };
    let missing: Vec<String> = TABLES
        .iter()
        .filter(|table| !existing.tables.iter().any(|existing| existing == *table))
        .map(ToString::to_string)
        .collect();
    if options.force_init {
        return create();
    }
    if options.no_init {
        return match existing.scale {
            _ if !missing.is_empty() => Err(TablesError::Missing(missing)),
            None | Some(0) => Err(TablesError::Empty),
            Some(scale) => Ok(Action::Use { scale }),
        };
    }
    if existing.tables.is_empty() {
        return create();
    }
    if existing.ours {
        return match existing.scale {
            Some(scale)
                if existing.filled
                    && missing.is_empty()
                    && options.scale.is_none_or(|wanted| wanted == scale) =>
            {
                Ok(Action::Use { scale })
            }
            _ => create(),
        };
    }
    if !missing.is_empty() {
        create()?;
        return Err(TablesError::Incomplete { existing: existing.tables.clone(), missing });
    }
    match (existing.scale, options.scale) {
        (None | Some(0), _) => Err(TablesError::Empty),
        (Some(existing), Some(wanted)) if existing != wanted => {
            Err(TablesError::OtherScale { existing, wanted })
        }
        (Some(scale), _) => Ok(Action::Use { scale }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::workload::Schema;

    fn all(scale: u32) -> Existing {
        let tables = TABLES.iter().map(ToString::to_string).collect();
        Existing { tables, ours: false, filled: false, scale: Some(scale), no_table: None }
    }

    fn ours(scale: u32) -> Existing {
        Existing { ours: true, filled: true, ..all(scale) }
    }

    fn partial(is_ours: bool) -> Existing {
        Existing { tables: vec!["pgbench_history".into()], ours: is_ours, ..Default::default() }
    }

    fn want(scale: u32) -> TableOptions {
        TableOptions { scale: Some(scale), ..Default::default() }
    }

    const DEFAULT: TableOptions = TableOptions {
        schema: Schema::Pgbench,
        usual_scale: 1,
        scale: None,
        no_init: false,
        force_init: false,
    };
    const NO_INIT: TableOptions = TableOptions { no_init: true, ..DEFAULT };
    const FORCE: TableOptions = TableOptions { force_init: true, ..DEFAULT };

    #[test]
    fn nothing_there_means_making_them() {
        let nothing = Existing::default();
        assert_eq!(decide(&nothing, want(3)), Ok(Action::Create { scale: 3 }));
        assert_eq!(decide(&nothing, TableOptions::default()), Ok(Action::Create { scale: 1 }));
        let error = decide(&nothing, NO_INIT).unwrap_err().to_string();
        assert!(TABLES.iter().all(|table| error.contains(table)), "{error}");
    }

    #[test]
    fn ours_are_used_again_or_made_anew() {
        assert_eq!(decide(&ours(2), TableOptions::default()), Ok(Action::Use { scale: 2 }));
        assert_eq!(decide(&ours(2), want(2)), Ok(Action::Use { scale: 2 }));
        assert_eq!(decide(&ours(2), want(5)), Ok(Action::Create { scale: 5 }));
        let unfilled = Existing { filled: false, ..ours(2) };
        assert_eq!(decide(&unfilled, want(2)), Ok(Action::Create { scale: 2 }));
        assert_eq!(decide(&partial(true), want(2)), Ok(Action::Create { scale: 2 }));
    }

    #[test]
    fn those_of_others_are_never_dropped_unasked() {
        assert_eq!(decide(&all(2), TableOptions::default()), Ok(Action::Use { scale: 2 }));
        assert_eq!(decide(&all(2), want(2)), Ok(Action::Use { scale: 2 }));
        let other = TablesError::OtherScale { existing: 2, wanted: 5 };
        assert_eq!(decide(&all(2), want(5)), Err(other));
        assert!(matches!(decide(&partial(false), want(1)), Err(TablesError::Incomplete { .. })));
        assert_eq!(decide(&all(0), TableOptions::default()), Err(TablesError::Empty));
        assert_eq!(decide(&all(2), FORCE), Ok(Action::Create { scale: 1 }));
    }

    #[test]
    fn what_is_no_table_is_used_but_not_dropped() {
        let no_table = Some(("pgbench_accounts".to_owned(), "view"));
        let views = Existing { no_table, ..all(2) };
        assert_eq!(decide(&views, DEFAULT), Ok(Action::Use { scale: 2 }));
        let error = decide(&views, FORCE).unwrap_err().to_string();
        assert!(error.contains("drop view pgbench_accounts"), "{error}");
        let incomplete = Existing { tables: partial(false).tables, ..views };
        assert!(matches!(decide(&incomplete, DEFAULT), Err(TablesError::NoTable { .. })));
    }

    #[test]
    fn no_init_takes_the_scale_that_is_there() {
        let options = TableOptions { scale: Some(9), ..NO_INIT };
        assert_eq!(decide(&all(2), options), Ok(Action::Use { scale: 2 }));
    }
}
