//! What became of every wait.

use lockscope_ebpf::{Loss, WaitStats};

use super::Accounts;
use crate::collect::Machine;
use crate::model::WaitBalance;

/// Adds up all tasks and all CPUs. `elsewhere` are the open waits of tasks that are not traced and
/// may sleep, `cleared` those of them that were forgotten while the programs were off.
pub fn balance(
    accounts: &Accounts,
    machine: &Machine,
    elsewhere: u64,
    cleared: u64,
) -> WaitBalance {
    let mut balance = WaitBalance {
        begin_count: machine.irq_begin_count,
        end_count: machine.irq_end_count,
        open_count: elsewhere
            + machine.open.iter().map(|stack| u64::from(stack.depth)).sum::<u64>(),
        dropped_count: cleared + dropped(machine),
    };
    add(&mut balance, &machine.other_waits);
    for (_, task) in accounts.iter() {
        add(&mut balance, &task.account.waits);
        balance.open_count += u64::from(task.account.open.depth);
    }
    balance
}

fn dropped(machine: &Machine) -> u64 {
    let kinds = [Loss::InferredEnd, Loss::NestedTooDeep, Loss::CutByGate];
    kinds.into_iter().map(|kind| machine.losses[kind as usize]).sum()
}

fn add(balance: &mut WaitBalance, waits: &[WaitStats]) {
    for class in waits {
        balance.begin_count += class.begin_count;
        balance.end_count += class.end_count;
    }
}

#[cfg(test)]
mod tests {
    use lockscope_ebpf::{LockClass, Side, TaskAccount, WaitStack};

    use super::*;
    use crate::collect::Snapshot;
    use crate::ledger::Group;

    #[test]
    fn every_place_where_a_wait_may_be_is_counted_once() {
        let mut task = TaskAccount::new(7, Side::Server, 0);
        task.waits[LockClass::Osq as usize] =
            WaitStats { begin_count: 5, end_count: 3, ..WaitStats::ZERO };
        task.open.depth = 1;
        let mut machine = Machine::default();
        machine.other_waits[LockClass::Mutex as usize] =
            WaitStats { begin_count: 20, end_count: 10, ..WaitStats::ZERO };
        (machine.irq_begin_count, machine.irq_end_count) = (2, 1);
        machine.open = vec![WaitStack { depth: 2, ..WaitStack::EMPTY }];
        machine.losses[Loss::InferredEnd as usize] = 1;
        machine.losses[Loss::CutByGate as usize] = 2;
        machine.losses[Loss::SelfInflicted as usize] = 99;
        let mut accounts = Accounts::default();
        let snapshot = Snapshot { tasks: [(7, task)].into(), ..Snapshot::default() };
        accounts.update(&snapshot, |_, _| Some(("role".to_owned(), Group::Backend)));

        let sum = balance(&accounts, &machine, 3, 4);
        let expected =
            WaitBalance { begin_count: 27, end_count: 14, open_count: 6, dropped_count: 7 };
        assert_eq!(sum, expected);
        assert_eq!(sum.begin_count, sum.end_count + sum.open_count + sum.dropped_count);
    }
}
