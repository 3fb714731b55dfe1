//! Making pgbench's tables, statement for statement as `pgbench -i` does.

use std::io::Write as _;
use std::pin::pin;

use bytes::{Bytes, BytesMut};
use futures_util::SinkExt as _;

use super::control::{Control, ControlError};
use super::tables::{InitProgress, TABLES};

const ALL: &str = "pgbench_accounts, pgbench_branches, pgbench_history, pgbench_tellers";
const ACCOUNTS_PER_SCALE: u64 = 100_000;
const TELLERS_PER_SCALE: u64 = 10;
/// From here on account numbers need 64 bits.
const BIG_SCALE: u32 = 20_000;
const COPY_CHUNK_BYTES: usize = 128 * 1024;
/// How lockscope's tables are told from others: by the comment on them.
pub(super) const MARK: &str = "lockscope";

/// `pgbench -i`, step by step, with lockscope's mark on the tables.
pub(super) fn create(
    control: &Control,
    scale: u32,
    on_progress: &mut dyn FnMut(InitProgress),
) -> Result<(), ControlError> {
    control.execute("dropping the old tables", &format!("drop table if exists {ALL}"))?;
    for statement in definitions(scale) {
        control.execute("creating the tables", &statement)?;
    }
    mark(control, &format!("{MARK}: being filled"))?;
    fill(control, scale, on_progress)?;
    on_progress(InitProgress::Step("vacuum"));
    for table in ["pgbench_branches", "pgbench_tellers", "pgbench_accounts", "pgbench_history"] {
        control.execute("vacuuming the tables", &format!("vacuum analyze {table}"))?;
    }
    on_progress(InitProgress::Step("primary keys"));
    for (table, key) in
        [("pgbench_branches", "bid"), ("pgbench_tellers", "tid"), ("pgbench_accounts", "aid")]
    {
        let statement = format!("alter table {table} add primary key ({key})");
        control.execute("creating the primary keys", &statement)?;
    }
    mark(control, &filled_mark(scale))
}

/// The comment on tables of lockscope's that are complete.
pub(super) fn filled_mark(scale: u32) -> String {
    format!("{MARK}: scale {scale}")
}

fn mark(control: &Control, text: &str) -> Result<(), ControlError> {
    TABLES.iter().try_for_each(|table| {
        let statement = format!("comment on table {table} is '{text}'");
        control.execute("marking the tables", &statement)
    })
}

/// pgbench's definitions.
fn definitions(scale: u32) -> [String; 4] {
    let aid = if scale >= BIG_SCALE { "bigint" } else { "int" };
    [
        format!("create table pgbench_history(tid int,bid int,aid {aid},delta int,mtime timestamp,filler char(22))"),
        "create table pgbench_tellers(tid int not null,bid int,tbalance int,filler char(84)) with (fillfactor=100)".to_owned(),
        format!("create table pgbench_accounts(aid {aid} not null,bid int,abalance int,filler char(84)) with (fillfactor=100)"),
        "create table pgbench_branches(bid int not null,bbalance int,filler char(88)) with (fillfactor=100)".to_owned(),
    ]
}

fn fill(
    control: &Control,
    scale: u32,
    on_progress: &mut dyn FnMut(InitProgress),
) -> Result<(), ControlError> {
    let what = "filling the tables";
    control.execute(what, "begin")?;
    // COPY with freeze needs tables that were created or emptied in the same transaction.
    control.execute(what, &format!("truncate table {ALL}"))?;
    for branch in 1..=u64::from(scale) {
        let branches = format!("insert into pgbench_branches(bid,bbalance) values({branch},0)");
        control.execute(what, &branches)?;
    }
    for teller in 1..=u64::from(scale) * TELLERS_PER_SCALE {
        let branch = (teller - 1) / TELLERS_PER_SCALE + 1;
        let tellers =
            format!("insert into pgbench_tellers(tid,bid,tbalance) values ({teller},{branch},0)");
        control.execute(what, &tellers)?;
    }
    control.run(what, copy_accounts(control, scale, on_progress))?;
    control.execute(what, "commit")
}

async fn copy_accounts(
    control: &Control,
    scale: u32,
    on_progress: &mut dyn FnMut(InitProgress),
) -> Result<(), tokio_postgres::Error> {
    let statement = "copy pgbench_accounts from stdin with (freeze on)";
    let mut sink = pin!(control.client().copy_in::<_, Bytes>(statement).await?);
    let rows = u64::from(scale) * ACCOUNTS_PER_SCALE;
    let mut chunk = Vec::with_capacity(COPY_CHUNK_BYTES + 64);
    for account in 1..=rows {
        let branch = (account - 1) / ACCOUNTS_PER_SCALE + 1;
        // Writing to a vector does not fail.
        drop(writeln!(chunk, "{account}\t{branch}\t0\t"));
        if chunk.len() >= COPY_CHUNK_BYTES || account == rows {
            sink.send(BytesMut::from(&chunk[..]).freeze()).await?;
            chunk.clear();
            on_progress(InitProgress::Rows(account, rows));
        }
    }
    sink.finish().await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_scales_have_large_account_numbers() {
        assert!(definitions(BIG_SCALE - 1)[2].contains("aid int "));
        assert!(definitions(BIG_SCALE)[0].contains("aid bigint"));
    }
}
