//! The rows of pgbench's tables.

use std::pin::pin;

use bytes::Bytes;
use futures_util::SinkExt as _;

use super::InitProgress;
use super::definitions::TABLES;
use super::options::{ACCOUNTS_PER_SCALE, InitOptions, TELLERS_PER_SCALE};
use crate::load::server::{Control, ControlError};

const COPY_CHUNK_BYTES: usize = 128 * 1024;
const WHAT: &str = "filling the tables";

/// Step `g`: everything in one transaction, so that COPY may freeze the rows. The two small tables
/// come by COPY too, as in pgbench 17; older ones insert them row by row.
pub(super) fn on_client(
    control: &Control,
    options: &InitOptions,
    on_progress: &mut dyn FnMut(InitProgress),
) -> Result<(), ControlError> {
    let freeze = if accounts_are_partitioned(control)? { "" } else { " with (freeze on)" };
    control.execute(WHAT, "begin")?;
    control.execute(WHAT, &format!("truncate table {TABLES}"))?;
    let scale = u64::from(options.scale);
    // pgbench leaves the filler of these two null.
    copy(
        control,
        "pgbench_branches",
        " with (freeze on)",
        scale,
        &|row, line| {
            number(line, row);
            line.extend_from_slice(b"\t0\t\\N\n");
        },
        &mut |_| {},
    )?;
    let tellers = scale * TELLERS_PER_SCALE;
    copy(
        control,
        "pgbench_tellers",
        " with (freeze on)",
        tellers,
        &|row, line| {
            number(line, row);
            line.push(b'\t');
            number(line, (row - 1) / TELLERS_PER_SCALE + 1);
            line.extend_from_slice(b"\t0\t\\N\n");
        },
        &mut |_| {},
    )?;
    let accounts = options.account_count();
    copy(
        control,
        "pgbench_accounts",
        freeze,
        accounts,
        &|row, line| {
            number(line, row);
            line.push(b'\t');
            number(line, (row - 1) / ACCOUNTS_PER_SCALE + 1);
            line.extend_from_slice(b"\t0\t\n");
        },
        &mut |done| on_progress(InitProgress::Rows(done, accounts)),
    )?;
    control.execute(WHAT, "commit")
}

/// Step `G`.
pub(super) fn on_server(control: &Control, options: &InitOptions) -> Result<(), ControlError> {
    let scale = options.scale;
    let tellers = u64::from(scale) * TELLERS_PER_SCALE;
    let accounts = options.account_count();
    let statements = [
        "begin".to_owned(),
        format!("truncate table {TABLES}"),
        format!(
            "insert into pgbench_branches(bid,bbalance) select bid, 0 from generate_series(1, {scale}) as bid"
        ),
        format!(
            "insert into pgbench_tellers(tid,bid,tbalance) select tid, (tid - 1) / {TELLERS_PER_SCALE} + 1, 0 from generate_series(1, {tellers}) as tid"
        ),
        format!(
            "insert into pgbench_accounts(aid,bid,abalance,filler) select aid, (aid - 1) / {ACCOUNTS_PER_SCALE} + 1, 0, '' from generate_series(1, {accounts}) as aid"
        ),
        "commit".to_owned(),
    ];
    statements.iter().try_for_each(|statement| control.execute(WHAT, statement))
}

/// The partitions may be older than this call: COPY cannot freeze rows of a partitioned table.
fn accounts_are_partitioned(control: &Control) -> Result<bool, ControlError> {
    let sql =
        "select 1 from pg_class where oid = to_regclass('pgbench_accounts') and relkind = 'p'";
    Ok(!control.query(WHAT, sql, &[])?.is_empty())
}

/// Sends `rows` rows, numbered from 1, each written by `write_row`.
fn copy(
    control: &Control,
    table: &str,
    options: &str,
    rows: u64,
    write_row: &dyn Fn(u64, &mut Vec<u8>),
    on_rows: &mut dyn FnMut(u64),
) -> Result<(), ControlError> {
    let statement = format!("copy {table} from stdin{options}");
    control.run(WHAT, async {
        let mut sink = pin!(control.client().copy_in::<_, Bytes>(&statement).await?);
        let mut chunk = Vec::with_capacity(COPY_CHUNK_BYTES + 64);
        for row in 1..=rows {
            write_row(row, &mut chunk);
            if chunk.len() >= COPY_CHUNK_BYTES || row == rows {
                let full = std::mem::replace(&mut chunk, Vec::with_capacity(COPY_CHUNK_BYTES + 64));
                sink.send(Bytes::from(full)).await?;
                on_rows(row);
            }
        }
        sink.finish().await?;
        Ok(())
    })
}

fn number(line: &mut Vec<u8>, value: u64) {
    line.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
}
