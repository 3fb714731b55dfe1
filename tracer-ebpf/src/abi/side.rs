//! Which side of the benchmark a task belongs to.

/// Which side of the benchmark a task belongs to.
#[repr(u8)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Side {
    /// Every task that is not in the task map, as one sum.
    Other = 0,
    /// The postmaster and its children.
    Server = 1,
    /// The load generator's threads.
    Client = 2,
}

/// How many sides there are.
pub const SIDE_COUNT: usize = 3;

impl Side {
    /// Every side, in index order.
    pub const ALL: [Side; SIDE_COUNT] = [Side::Other, Side::Server, Side::Client];

    /// The name in reports and JSON.
    pub fn name(self) -> &'static str {
        match self {
            Side::Other => "other",
            Side::Server => "server",
            Side::Client => "client",
        }
    }
}
