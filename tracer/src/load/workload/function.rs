//! The `plpgsql` workload: CPU time inside one backend, with no lock of the kernel in it.

/// Its transaction: 100 rounds of the function.
pub(super) const SCRIPT: &str = "\\set aid random(1, 100000 * :scale - 9)
SELECT lockscope_loop(:aid, 100);
";

/// The definition of the function that it calls. Each round computes a little and reads one of ten
/// neighbouring accounts.
pub const FUNCTION: &str = "create or replace function lockscope_loop(first bigint, rounds int)
returns bigint language plpgsql stable as $$
declare
  total bigint := 0;
  balance int;
begin
  for i in 1..rounds loop
    total := (total * 31 + i) % 1000003;
    if total % 2 = 0 then
      total := total + 1;
    end if;
    select abalance into balance from pgbench_accounts where aid = first + i % 10;
    total := total + coalesce(balance, 0);
  end loop;
  return total;
end
$$";
