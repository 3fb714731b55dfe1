//! What pgbench and sysbench say of themselves: the progress lines and the final report.

mod numbers;
mod pgbench;
mod sysbench;

/// One line that says something.
#[derive(Clone, Debug, PartialEq)]
pub enum Said {
    /// A line of the progress.
    Progress(Progress),
    /// A line of the final report, or of its head.
    Fact(Fact),
}

/// What a line of the progress says.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Progress {
    /// Seconds on the client's clock: since its start, or since 1970.
    pub at_s: f64,
    /// Transactions a second since the line before.
    pub tps: f64,
    /// Mean latency, or a percentile of it, in milliseconds.
    pub latency_ms: Option<f64>,
    /// Transactions that failed since the line before.
    pub failed_count: Option<u64>,
    /// Errors and the like a second.
    pub errors_per_s: Option<f64>,
}

/// What a line of the final report says.
#[derive(Clone, Debug, PartialEq)]
pub enum Fact {
    /// `pgbench (15.8)`, `sysbench 1.0.20`.
    Program(String),
    /// Successful transactions.
    Transactions(u64),
    /// Failed ones.
    Failed(u64),
    /// Transactions that were tried again, and how often in all.
    Retries(u64),
    /// Mean latency in milliseconds.
    LatencyMs(f64),
    /// Milliseconds that the client took to connect, and left out of its rate.
    ConnectingMs(f64),
    /// Transactions a second.
    Tps(f64),
    /// Whether the rate has the time of connecting in it.
    RateHoldsConnecting,
}

/// Reads a line; most say nothing. The rate and whether it holds the time of connecting stand in one.
pub fn read_line(line: &str) -> Vec<Said> {
    pgbench::read(line).or_else(|| sysbench::read(line)).unwrap_or_default()
}

/// All that was said, but for the progress.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Summary {
    /// See [`Fact::Program`].
    pub program: Option<String>,
    /// See [`Fact::Transactions`].
    pub transactions_count: Option<u64>,
    /// See [`Fact::Failed`].
    pub failed_count: Option<u64>,
    /// See [`Fact::Retries`].
    pub retries_count: Option<u64>,
    /// See [`Fact::LatencyMs`].
    pub latency_ms: Option<f64>,
    /// See [`Fact::ConnectingMs`].
    pub connecting_ms: Option<f64>,
    /// See [`Fact::Tps`].
    pub tps: Option<f64>,
    /// See [`Fact::RateHoldsConnecting`].
    pub rate_holds_connecting: bool,
}

impl Summary {
    /// Takes one fact in. Of several rates (older pgbench) the one without connecting counts.
    pub fn take(&mut self, fact: Fact) {
        match fact {
            Fact::Program(name) => self.program = Some(name),
            Fact::Transactions(count) => self.transactions_count = Some(count),
            Fact::Failed(count) => self.failed_count = Some(count),
            Fact::Retries(count) => self.retries_count = Some(count),
            Fact::LatencyMs(ms) => self.latency_ms = Some(ms),
            Fact::ConnectingMs(ms) => self.connecting_ms = Some(ms),
            Fact::Tps(tps) => {
                self.tps = Some(tps);
                self.rate_holds_connecting = false;
            }
            Fact::RateHoldsConnecting => self.rate_holds_connecting = true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summary(text: &str) -> Summary {
        let mut summary = Summary::default();
        for said in text.lines().flat_map(read_line) {
            if let Said::Fact(fact) = said {
                summary.take(fact);
            }
        }
        summary
    }

    fn progress(line: &str) -> Progress {
        match read_line(line)[..] {
            [Said::Progress(progress)] => progress,
            ref other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn pgbench_s_report_of_several_versions() {
        let of_15 = summary(
            "pgbench (15.8 (Debian 15.8-0+deb12u1))\n\
             transaction type: <builtin: select only>\n\
             number of clients: 4\n\
             number of transactions actually processed: 400/400\n\
             number of failed transactions: 3 (0.750%)\n\
             total number of retries: 7\n\
             latency average = 0.312 ms\n\
             initial connection time = 5.101 ms\n\
             tps = 12821.353977 (without initial connection time)\n",
        );
        assert_eq!(of_15.program.as_deref(), Some("pgbench 15.8"));
        assert_eq!((of_15.transactions_count, of_15.failed_count), (Some(400), Some(3)));
        assert_eq!(of_15.retries_count, Some(7));
        assert_eq!((of_15.latency_ms, of_15.connecting_ms), (Some(0.312), Some(5.101)));
        assert_eq!(of_15.tps, Some(12_821.353_977));
        assert!(!of_15.rate_holds_connecting);
        let of_13 = summary(
            "number of transactions actually processed: 8112\n\
             tps = 811.1 (including connections establishing)\n\
             tps = 812.5 (excluding connections establishing)\n",
        );
        assert_eq!((of_13.transactions_count, of_13.tps), (Some(8112), Some(812.5)));
        assert!(!of_13.rate_holds_connecting);
        let reconnecting = summary("tps = 90.25 (including reconnection times)\n");
        assert!(reconnecting.rate_holds_connecting);
        assert_eq!(reconnecting.tps, Some(90.25));
    }

    #[test]
    fn pgbench_s_progress_of_several_versions() {
        let of_12 = progress("progress: 1.0 s, 9412.0 tps, lat 0.424 ms stddev 0.071");
        assert_eq!((of_12.at_s, of_12.tps, of_12.latency_ms), (1.0, 9412.0, Some(0.424)));
        assert_eq!(of_12.failed_count, None);
        let of_15 = progress(
            "progress: 12.0 s, 9412.5 tps, lat 0.424 ms stddev 0.071, 12 failed, lag 0.1 ms, 3 skipped",
        );
        assert_eq!((of_15.at_s, of_15.failed_count), (12.0, Some(12)));
        let stamped =
            progress("progress: 1733022471.123 s, 10.0 tps, lat 1.5 ms stddev 0.1, 0 failed");
        assert_eq!(stamped.at_s, 1_733_022_471.123);
        // Without a transaction there is no latency.
        let none = progress("progress: 2.0 s, 0.0 tps, lat NaN ms stddev NaN, 0 failed");
        assert_eq!((none.tps, none.latency_ms), (0.0, None));
    }

    #[test]
    fn sysbench_s_words() {
        let line = "[ 2s ] thds: 56 tps: 1234.50 qps: 19752.00 (r/w/o: 17283.00/0.00/2469.00) \
                    lat (ms,95%): 61.08 err/s: 1.50 reconn/s: 0.00";
        let told = progress(line);
        assert_eq!((told.at_s, told.tps, told.latency_ms), (2.0, 1234.5, Some(61.08)));
        assert_eq!(told.errors_per_s, Some(1.5));
        for (of_version, rate) in [
            ("sysbench 1.0.20 (using system LuaJIT 2.1.0-beta3)", None),
            ("sysbench 1.1.0-df89d34 (using bundled LuaJIT 2.1.0-beta3)", Some(206.01)),
        ] {
            let throughput = rate.map_or(String::new(), |rate| {
                format!("Throughput:\n    events/s (eps):                      {rate}\n")
            });
            let told = summary(&format!(
                "{of_version}\n\
                 SQL statistics:\n\
                 \x20   transactions:                        2061   (206.01 per sec.)\n\
                 \x20   ignored errors:                      2      (0.20 per sec.)\n{throughput}\
                 Latency (ms):\n\
                 \x20        avg:                                  271.30\n"
            ));
            assert_eq!((told.transactions_count, told.failed_count), (Some(2061), Some(2)));
            assert_eq!((told.tps, told.latency_ms), (Some(206.01), Some(271.3)));
            assert!(told.program.is_some_and(|name| name.starts_with("sysbench 1.")));
        }
    }

    #[test]
    fn what_only_looks_like_it_says_nothing() {
        for line in ["", "progress: soon", "[ x ] thds: 1", "tps: 5", "starting vacuum...end."] {
            assert_eq!(read_line(line), [], "{line}");
        }
    }
}
