//! Whether kernel, server and machine are those that a signature is about.

use super::pattern::matches;
use super::sides::Measured;
use super::signature::{Fact, Versions};
use super::version::{Product, Version};
use crate::model::{Outcome, SurroundingEvidence};

/// Whether the version that every run of the side has is an affected one.
pub(super) fn version(
    product: Product,
    versions: &Versions,
    side: &Measured<'_>,
) -> SurroundingEvidence {
    let mut texts: Vec<&str> = side
        .runs
        .iter()
        .filter_map(|run| match product {
            Product::Kernel => Some(run.environment.kernel.release.as_str()),
            Product::Postgres => {
                run.environment.postgres.as_ref().map(|server| server.version.as_str())
            }
        })
        .filter(|text| !text.is_empty())
        .collect();
    texts.dedup();
    let (outcome, text) = match texts.as_slice() {
        [text] => match Version::leading(product, text) {
            Some(found) => affected(versions, found),
            None => (Outcome::NotJudged, format!("`{text}` is no version")),
        },
        [] => (Outcome::NotJudged, "the run does not tell the version".to_owned()),
        several => (Outcome::NotJudged, format!("the runs differ: {}", several.join(", "))),
    };
    SurroundingEvidence { name: product.name().to_owned(), outcome, text }
}

fn affected(versions: &Versions, found: Version) -> (Outcome, String) {
    let Versions { broken_in, fixed_in, seen_in, fixed_by, .. } = versions;
    let by = |commits: &[String]| match commits {
        [] => String::new(),
        commits => format!(" by {}", commits.join(", ")),
    };
    if let Some(broken_in) = broken_in.filter(|broken_in| found < *broken_in) {
        return (Outcome::Failed, format!("{found} is older than {broken_in}, which brought it"));
    }
    if let Some(fixed_in) = fixed_in.filter(|fixed_in| found >= *fixed_in) {
        let text = format!("{found} has the fix, made in {fixed_in}{}", by(fixed_by));
        return (Outcome::Failed, text);
    }
    match (broken_in, fixed_in) {
        // Which release a fix came with is not always known.
        (Some(broken_in), None) if !fixed_by.is_empty() && !found.same_series(*broken_in) => {
            let text = format!(
                "{found} is newer than {broken_in}; in which release{} fixed it, the signature does not say",
                by(fixed_by)
            );
            (Outcome::NotJudged, text)
        }
        (Some(broken_in), None) => {
            (Outcome::Held, format!("{found} is affected: {broken_in} and newer"))
        }
        (Some(broken_in), Some(fixed_in)) => {
            (Outcome::Held, format!("{found} is affected: {broken_in} up to before {fixed_in}"))
        }
        (None, Some(fixed_in)) => {
            (Outcome::Held, format!("{found} is before the fix in {fixed_in}"))
        }
        (None, None) if seen_in.iter().any(|seen| found.same_series(*seen)) => {
            (Outcome::Held, format!("it was seen on {found}"))
        }
        (None, None) if !seen_in.is_empty() => {
            let seen: Vec<String> = seen_in.iter().map(Version::to_string).collect();
            let text =
                format!("seen on {}; of {found} the signature says nothing", seen.join(", "));
            (Outcome::NotJudged, text)
        }
        (None, None) => {
            let text = format!("whether {found} is affected, the signature does not say");
            (Outcome::NotJudged, text)
        }
    }
}

/// Whether a fact is as the signature has it.
pub(super) fn fact(fact: &Fact, facts: &[(String, String)]) -> SurroundingEvidence {
    let values: Vec<&str> = facts
        .iter()
        .filter(|(name, _)| matches(&fact.name, name))
        .map(|(_, value)| value.as_str())
        .collect();
    let any = |wanted: &[String]| {
        values.iter().any(|value| wanted.iter().any(|pattern| matches(pattern, value)))
    };
    let told = values.join(", ");
    let (outcome, text) = if values.is_empty() {
        (Outcome::NotJudged, "not recorded".to_owned())
    } else if any(&fact.is_not) {
        (Outcome::Failed, format!("{told}; not {}", fact.is_not.join(", ")))
    } else if fact.is.is_empty() || any(&fact.is) {
        (Outcome::Held, told)
    } else {
        (Outcome::Failed, format!("{told}; not {}", fact.is.join(" or ")))
    };
    let text = format!("{text} ({})", fact.because);
    SurroundingEvidence { name: fact.name.clone(), outcome, text }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(versions: &Versions, found: &str) -> Outcome {
        affected(versions, Version::leading(Product::Kernel, found).unwrap()).0
    }

    fn kernel(text: &str) -> Version {
        Version::whole(Product::Kernel, text).unwrap()
    }

    fn postgres(text: &str) -> Version {
        Version::whole(Product::Postgres, text).unwrap()
    }

    fn known(broken_in: Option<&str>, fixed_in: Option<&str>, fixed_by: &[&str]) -> Versions {
        Versions {
            broken_in: broken_in.map(kernel),
            fixed_in: fixed_in.map(kernel),
            fixed_by: fixed_by.iter().map(|commit| (*commit).to_owned()).collect(),
            ..Versions::default()
        }
    }

    #[test]
    fn a_range_holds_its_begin_and_not_its_end() {
        use Outcome::*;
        let range = known(Some("6.3-rc"), Some("6.4-rc1"), &["abc"]);
        for (found, expected) in [
            ("6.2.16", Failed),
            ("6.3.0-rc1", Held),
            ("6.3.12", Held),
            ("6.4.0-rc1", Failed),
            ("6.18.5", Failed),
        ] {
            assert_eq!(outcome(&range, found), expected, "{found}");
        }
    }

    #[test]
    fn what_the_signature_does_not_say_is_not_judged() {
        use Outcome::*;
        let open = known(Some("6.12"), None, &[]);
        assert_eq!([outcome(&open, "6.11"), outcome(&open, "7.0")], [Failed, Held]);
        let fixed_somewhere = known(Some("6.16-rc"), None, &["abc"]);
        assert_eq!(outcome(&fixed_somewhere, "6.16.0-rc3"), Held);
        assert_eq!(outcome(&fixed_somewhere, "6.18"), NotJudged);
        assert_eq!(outcome(&known(None, None, &["abc"]), "6.18"), NotJudged);
        let seen = Versions { seen_in: vec![kernel("5.11")], ..Versions::default() };
        assert_eq!([outcome(&seen, "5.11.3"), outcome(&seen, "6.1")], [Held, NotJudged]);
    }

    #[test]
    fn a_range_of_postgres_is_of_major_versions_then_of_minor_ones() {
        use Outcome::*;
        let found = |versions: &Versions, found: &str| affected(versions, postgres(found)).0;
        let before_11 = Versions { fixed_in: Some(postgres("11")), ..Versions::default() };
        for (version, expected) in [
            ("9.6.24", Held),
            ("10.23", Held),
            ("11beta1", Held),
            ("11", Failed),
            ("15.18", Failed),
        ] {
            assert_eq!(found(&before_11, version), expected, "{version}");
        }
        let range = Versions {
            broken_in: Some(postgres("15")),
            fixed_in: Some(postgres("15.9")),
            ..Versions::default()
        };
        for (version, expected) in
            [("14.20", Failed), ("15.0", Held), ("15.8", Held), ("15.18", Failed), ("16.0", Failed)]
        {
            assert_eq!(found(&range, version), expected, "{version}");
        }
        let seen = Versions { seen_in: vec![postgres("15")], ..Versions::default() };
        assert_eq!([found(&seen, "15.18"), found(&seen, "16.2")], [Held, NotJudged]);
        let fixed_somewhere = Versions {
            broken_in: Some(postgres("15")),
            fixed_by: vec!["abc".to_owned()],
            ..Versions::default()
        };
        assert_eq!(found(&fixed_somewhere, "15.18"), Held, "its own series is affected");
        assert_eq!(found(&fixed_somewhere, "16"), NotJudged);
    }

    #[test]
    fn facts_are_told_from_what_the_run_records() {
        use Outcome::*;
        let facts = [("storage.0.name", "ext4"), ("storage.0.attributes.options", "rw,noatime")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()));
        let judge = |name: &str, is: &[&str], is_not: &[&str]| {
            let own = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
            let claim = Fact {
                name: name.to_owned(),
                is: own(is),
                is_not: own(is_not),
                because: "x".into(),
            };
            fact(&claim, &facts).outcome
        };
        assert_eq!(judge("storage.*.name", &["xfs", "ext*"], &[]), Held);
        assert_eq!(judge("storage.*.name", &["xfs"], &[]), Failed);
        assert_eq!(judge("storage.*.options", &[], &["*noatime*"]), Failed);
        assert_eq!(judge("storage.*.options", &[], &["*nodioread_nolock*"]), Held);
        assert_eq!(judge("kernel.config_flags.CONFIG_PSI", &["y"], &[]), NotJudged);
    }
}
