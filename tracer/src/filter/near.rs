//! What a name that does not exist may have meant.

/// Names that are listed.
const LISTED: usize = 3;
/// Less alike than this is no typing error.
const ALIKE: f64 = 0.75;

/// `; did you mean a, b or c?`, or nothing when no candidate resembles `given`.
pub(crate) fn did_you_mean<'a>(given: &str, candidates: impl Iterator<Item = &'a str>) -> String {
    let near = nearest(given, candidates);
    match near.split_last() {
        None => String::new(),
        Some((only, [])) => format!("; did you mean {only}?"),
        Some((last, others)) => format!("; did you mean {} or {last}?", others.join(", ")),
    }
}

/// The most similar candidates, best first; a part of a candidate counts as similar.
fn nearest<'a>(given: &str, candidates: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    // A typing error or two come first: by the other measure two letters the wrong way round in a short
    // name share little, and names with a long common beginning share more than they should.
    let similarity = |name: &str| match strsim::osa_distance(given, name) {
        1 if given.len() > 2 => 0.99,
        2 if given.len() > 7 => 0.98,
        _ if name.contains(given) && !given.is_empty() => 0.95,
        _ => strsim::jaro_winkler(given, name),
    };
    let mut scored: Vec<_> = candidates.map(|name| (similarity(name), name)).collect();
    scored.retain(|(score, _)| *score >= ALIKE);
    scored.sort_by(|(a, left), (b, right)| {
        b.total_cmp(a).then_with(|| (left.len(), *left).cmp(&(right.len(), *right)))
    });
    scored.dedup();
    scored.into_iter().take(LISTED).map(|(_, name)| name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn typing_errors_and_parts_are_found_and_others_are_not() {
        let known = ["osq", "qspinlock", "rwlock", "rwsem", "percpu_rwsem"];
        let all = || known.iter().copied();
        assert_eq!(did_you_mean("qspinlok", all()), "; did you mean qspinlock?");
        assert_eq!(did_you_mean("rwse", all()), "; did you mean rwsem or percpu_rwsem?");
        assert_eq!(did_you_mean("tsp", ["tps"].into_iter()), "; did you mean tps?");
        assert_eq!(did_you_mean("zzz", all()), "");
        let dotted = ["counters.server.cycles", "counters.server.ipc", "counters.server.faults"];
        let said = did_you_mean("counters.server.icp", dotted.into_iter());
        assert!(said.starts_with("; did you mean counters.server.ipc"), "{said}");
        assert_eq!(did_you_mean("", std::iter::empty()), "");
    }
}
