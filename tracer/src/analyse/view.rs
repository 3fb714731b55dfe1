//! Kernel locks beside Postgres's wait events and statements.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::{Activity, Lock, LockInView};

/// Locks that are looked up.
const LOCKS: usize = 8;

/// What a backend (by its pid here) was seen doing, and how often.
pub type Sight = (u32, Activity);

/// Sums over the backends, most seen first.
pub fn activity(sights: &[Sight]) -> Vec<Activity> {
    let mut sums: BTreeMap<(Option<String>, Option<String>), u64> = BTreeMap::new();
    for (_, seen) in sights {
        let key = (seen.wait_event.clone(), seen.query_id.clone());
        *sums.entry(key).or_default() += seen.seen_count;
    }
    let mut found: Vec<Activity> = sums
        .into_iter()
        .map(|((wait_event, query_id), seen_count)| Activity { wait_event, query_id, seen_count })
        .collect();
    found.sort_by_key(|activity| std::cmp::Reverse(activity.seen_count));
    found
}

/// The server's locks, each with what its sampled waiters were seen doing most. A waiter is known by
/// its tid only: the two are joined by backend over the whole trace, not by instant.
pub fn join(locks: &[Lock], sights: &[Sight]) -> Vec<LockInView> {
    let of_server = locks.iter().filter(|lock| lock.side == "server").take(LOCKS);
    let joined = of_server.filter_map(|lock| {
        let tids: BTreeSet<u32> = lock.tids.iter().copied().collect();
        let theirs: Vec<Sight> =
            sights.iter().filter(|(pid, _)| tids.contains(pid)).cloned().collect();
        let found = activity(&theirs);
        let seen_count = found.iter().map(|activity| activity.seen_count).sum();
        let activity = found.into_iter().next()?;
        Some(LockInView {
            class: lock.class.clone(),
            name: lock.name.clone(),
            activity,
            seen_count,
        })
    });
    joined.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sight(pid: u32, wait_event: Option<&str>, query: &str, seen_count: u64) -> Sight {
        let wait_event = wait_event.map(str::to_owned);
        (pid, Activity { wait_event, query_id: Some(query.to_owned()), seen_count })
    }

    #[test]
    fn a_lock_is_joined_with_what_its_waiters_did_most() {
        let sights = [
            sight(1, Some("LWLock/WALWrite"), "7", 5),
            sight(2, None, "7", 9),
            sight(3, Some("LWLock/WALWrite"), "7", 1),
        ];
        let lock = |side: &str, tids: &[u32]| Lock {
            side: side.to_owned(),
            name: "x".to_owned(),
            tids: tids.to_vec(),
            ..Lock::default()
        };
        let joined =
            join(&[lock("server", &[1, 3]), lock("client", &[2]), lock("server", &[9])], &sights);
        assert_eq!(joined.len(), 1, "clients' locks and unseen waiters have no view");
        assert_eq!(joined[0].activity.wait_event.as_deref(), Some("LWLock/WALWrite"));
        assert_eq!((joined[0].activity.seen_count, joined[0].seen_count), (6, 6));
        let all = activity(&sights);
        assert_eq!((all[0].seen_count, all[0].wait_event.as_deref()), (9, None));
    }
}
