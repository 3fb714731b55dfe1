//! Signatures from TOML, the form of which `docs/signatures.md` describes. What is wrong is told with its line.

use std::collections::BTreeMap;

use serde::Deserialize;
use toml::Spanned;

use super::expression::Expression;
use super::said::{Said, said};
use super::signature::{Class, Fact, Limit, Signature, SignatureError, Test, Tested, Versions};
use super::version::{Product, Version};
use crate::analyse::compare::{Condition, Threshold};
use crate::model::Experiment;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    id: Spanned<String>,
    #[serde(deserialize_with = "said")]
    title: String,
    class: Class,
    #[serde(deserialize_with = "said")]
    symptom: String,
    conditions: Spanned<Vec<ConditionPart>>,
    kernel: Option<VersionsPart>,
    postgres: Option<VersionsPart>,
    #[serde(default)]
    facts: Vec<Spanned<Fact>>,
    limit: Option<Limit>,
    #[serde(default)]
    alternatives: Vec<Said>,
    next: Spanned<Vec<NextPart>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ConditionPart {
    metric: Spanned<String>,
    run: Option<Spanned<String>>,
    change: Option<Spanned<String>>,
    #[serde(default)]
    decisive: bool,
    #[serde(deserialize_with = "said")]
    because: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct VersionsPart {
    broken_in: Option<Spanned<String>>,
    fixed_in: Option<Spanned<String>>,
    #[serde(default)]
    seen_in: Vec<Spanned<String>>,
    #[serde(default)]
    broken_by: Vec<Said>,
    #[serde(default)]
    fixed_by: Vec<Said>,
    #[serde(default)]
    config: BTreeMap<String, String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NextPart {
    #[serde(deserialize_with = "said")]
    text: String,
    command: Option<Said>,
}

/// Something wrong and where it begins.
type Wrong = (usize, String);

impl Signature {
    /// Reads one.
    ///
    /// # Errors
    /// [`SignatureError::Invalid`] with the line and what is wrong there.
    pub fn parse(text: &str, file: &str) -> Result<Signature, SignatureError> {
        let invalid = |(at, what): Wrong| SignatureError::Invalid {
            file: file.to_owned(),
            line: 1 + text.bytes().take(at).filter(|byte| *byte == b'\n').count(),
            what,
        };
        let read: File = toml::from_str(text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start);
            invalid((at, error.message().to_owned()))
        })?;
        checked(read, file).map_err(invalid)
    }
}

fn checked(file: File, origin: &str) -> Result<Signature, Wrong> {
    let id = file.id.get_ref();
    if id.is_empty() || !id.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-') {
        let what = format!("`{id}` is no id; letters, digits and - make one, as in `mm-cid-lock`");
        return Err((file.id.span().start, what));
    }
    let at = file.conditions.span().start;
    let conditions = file.conditions.into_inner().into_iter().map(condition);
    let mut conditions = conditions.collect::<Result<Vec<Tested>, Wrong>>()?;
    if !conditions.iter().any(|condition| condition.decisive) {
        let what = "no condition is decisive: without one everything would match; say \
                    `decisive = true` where there is no match without it";
        return Err((at, what.to_owned()));
    }
    conditions.sort_by_key(|condition| !condition.decisive);
    if file.next.get_ref().is_empty() {
        return Err((file.next.span().start, "`next` says nothing to do".to_owned()));
    }
    let mut facts = file.facts.into_iter().map(fact).collect::<Result<Vec<Fact>, Wrong>>()?;
    let settings = [
        (&file.kernel, "kernel.config_flags", "kernel configuration"),
        (&file.postgres, "postgres.settings", "server setting"),
    ];
    for (part, prefix, because) in settings {
        let settings = part.iter().flat_map(|part| &part.config);
        facts.extend(settings.map(|(setting, value)| Fact {
            name: format!("{prefix}.{setting}"),
            is: vec![value.clone()],
            is_not: Vec::new(),
            because: because.to_owned(),
        }));
    }
    Ok(Signature {
        id: file.id.into_inner(),
        origin: origin.to_owned(),
        title: file.title,
        class: file.class,
        symptom: file.symptom,
        conditions,
        kernel: file.kernel.map(|part| versions(Product::Kernel, part)).transpose()?,
        postgres: file.postgres.map(|part| versions(Product::Postgres, part)).transpose()?,
        facts,
        limit: file.limit,
        alternatives: file.alternatives.into_iter().map(|Said(other)| other).collect(),
        next: file.next.into_inner().into_iter().map(experiment).collect(),
    })
}

fn experiment(part: NextPart) -> Experiment {
    Experiment { text: part.text, command: part.command.map(|Said(command)| command) }
}

fn fact(fact: Spanned<Fact>) -> Result<Fact, Wrong> {
    let (at, fact) = (fact.span().start, fact.into_inner());
    match fact.is.is_empty() && fact.is_not.is_empty() {
        true => Err((at, format!("fact `{}` has neither `is` nor `not`", fact.name))),
        false => Ok(fact),
    }
}

fn versions(product: Product, part: VersionsPart) -> Result<Versions, Wrong> {
    let version = |text: &Spanned<String>| version(product, text);
    let broken_in = part.broken_in.as_ref().map(version).transpose()?;
    let fixed_in = part.fixed_in.as_ref().map(version).transpose()?;
    if let (Some(broken), Some(fixed), Some(text)) = (broken_in, fixed_in, &part.fixed_in)
        && fixed <= broken
    {
        let what = format!("`{fixed}` is no later than {broken}, which broke it");
        return Err((text.span().start, what));
    }
    Ok(Versions {
        broken_in,
        fixed_in,
        seen_in: part.seen_in.iter().map(version).collect::<Result<_, _>>()?,
        broken_by: part.broken_by.into_iter().map(|Said(commit)| commit).collect(),
        fixed_by: part.fixed_by.into_iter().map(|Said(commit)| commit).collect(),
    })
}

fn version(product: Product, text: &Spanned<String>) -> Result<Version, Wrong> {
    Version::whole(product, text.get_ref()).ok_or_else(|| {
        let (name, like) = (product.name(), product.examples());
        let what = format!("`{}` is no version of {name}; write {like}", text.get_ref());
        (text.span().start, what)
    })
}

fn condition(part: ConditionPart) -> Result<Tested, Wrong> {
    let at = part.metric.span().start;
    let metric = Expression::parse(part.metric.get_ref()).map_err(|what| (at, what))?;
    if part.run.is_none() && part.change.is_none() {
        let what = format!("the condition on `{}` has neither `run` nor `change`", metric.text);
        return Err((at, what));
    }
    let run = part.run.map(|text| test(&metric, text, run_test)).transpose()?;
    let change = part.change.map(|text| test(&metric, text, change_test)).transpose()?;
    Ok(Tested { metric, run, change, decisive: part.decisive, because: part.because })
}

fn test(
    metric: &Expression,
    text: Spanned<String>,
    check: fn(&Expression, Threshold) -> Result<(), &'static str>,
) -> Result<Test, Wrong> {
    let at = text.span().start;
    let text = text.into_inner();
    let wrong = |what: &str| (at, format!("`{text}` {what}"));
    // The grammar of `--fail-if`, with the metric in front.
    let condition: Condition = format!("\"{}\" {text}", metric.text)
        .parse()
        .map_err(|_| wrong("is no test; write < or > and a number: `> 5%`, `< -10us`"))?;
    if condition.has_confidence() {
        return Err(wrong("names a confidence; --confidence of the command is used"));
    }
    if condition.is_time() && !metric.is_time() {
        return Err(wrong("is a time, and the metric is none: leave the unit away"));
    }
    check(metric, condition.threshold()).map_err(wrong)?;
    Ok(Test { text, condition })
}

fn run_test(metric: &Expression, threshold: Threshold) -> Result<(), &'static str> {
    match threshold {
        Threshold::Difference(_) => {
            Err("has a sign, which makes it a change: write it in `change`")
        }
        Threshold::Relative(_) if !metric.is_share() && metric.whole().is_none() => {
            Err("is a percentage, and the metric is neither a share nor a time of server or client")
        }
        Threshold::Relative(_) | Threshold::Value(_) => Ok(()),
    }
}

fn change_test(_: &Expression, threshold: Threshold) -> Result<(), &'static str> {
    match threshold {
        Threshold::Value(_) => Err(
            "is a value: a change has a sign or a % (`> +5us`, `> +20%`); a value goes in `run`",
        ),
        Threshold::Difference(_) | Threshold::Relative(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"
id = "hot-cat"
title = "A title"
class = "shared_atomic"
symptom = "Slower"

[[conditions]]
metric = "tps"
change = "< -5%"
because = "it is slower"

[[conditions]]
metric = "profile.all.self.cat"
run = "> 5%"
decisive = true
because = "it is hot"

[kernel]
broken_in = "6.12"
config = { CONFIG_PSI = "y" }

[[next]]
text = "feed it"
"#;

    fn error(from: &str, to: &str) -> String {
        assert!(GOOD.contains(from), "{from}");
        Signature::parse(&GOOD.replacen(from, to, 1), "cat.toml").unwrap_err().to_string()
    }

    #[test]
    fn a_good_one_has_its_decisive_conditions_first() {
        let signature = Signature::parse(GOOD, "cat.toml").unwrap();
        assert_eq!(signature.conditions[0].metric.text, "profile.all.self.cat");
        assert_eq!(signature.facts[0].name, "kernel.config_flags.CONFIG_PSI");
    }

    #[test]
    fn what_is_wrong_is_told_with_file_and_line() {
        for (from, to, expected) in [
            ("title = \"A title\"", "titel = \"A title\"", ["cat.toml, line 3", "titel"]),
            ("title = \"A title\"", "title = \"A title", ["cat.toml, line 3", "string"]),
            ("symptom = \"Slower\"\n", "", ["cat.toml, line 1", "symptom"]),
            ("\"shared_atomic\"", "\"atomic\"", ["line 4", "shared_atomic"]),
            ("\"hot-cat\"", "\"hot cat\"", ["line 2", "no id"]),
            ("\"tps\"", "\"tsp\"", ["line 8", "did you mean tps?"]),
            ("\"< -5%\"", "\"-5%\"", ["line 9", "no test"]),
            ("\"< -5%\"", "\"< 500\"", ["line 9", "a value goes in `run`"]),
            ("\"< -5%\"", "\"< -5% @99\"", ["line 9", "--confidence"]),
            ("change = \"< -5%\"", "run = \"> 5%\"", ["line 9", "neither a share"]),
            ("\"> 5%\"", "\"> +0.05\"", ["line 14", "write it in `change`"]),
            ("run = \"> 5%\"\n", "", ["line 13", "neither `run` nor `change`"]),
            ("\"< -5%\"", "\"< -5us\"", ["line 9", "leave the unit away"]),
            ("\"> 5%\"", "\"> 5ms\"", ["line 14", "leave the unit away"]),
            ("\"A title\"", "\"\"", ["line 3", "empty"]),
            ("\"Slower\"", "\" \"", ["line 5", "empty"]),
            ("\"it is slower\"", "\"\"", ["line 10", "empty"]),
            ("\"feed it\"", "\"\"", ["line 23", "empty"]),
            ("\"feed it\"", "\"feed it\"\ncommand = \"\"", ["line 24", "empty"]),
            ("decisive = true\n", "", ["line 7", "no condition is decisive"]),
            ("\"6.12\"", "\"six\"", ["line 19", "no version of kernel"]),
            ("\"6.12\"", "\"99999999999\"", ["line 19", "no version of kernel"]),
            (
                "[kernel]",
                "[postgres]\nfixed_in = \"16-rc1\"\n[kernel]",
                ["line 19", "no version of postgres"],
            ),
            ("\"profile.all.self.cat\"", "\"latency.*\"", ["line 13", "do not add up"]),
            ("\"6.12\"", "\"6.12\"\nfixed_in = \"6.9\"", ["line 20", "no later than 6.12"]),
        ] {
            let error = error(from, to);
            for word in expected {
                assert!(error.contains(word), "`{from}` as `{to}`: {error}");
            }
        }
    }
}
