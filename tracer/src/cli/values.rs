//! Parsers of option values.

use std::time::Duration;

use clap::Arg;

use crate::load::{Database, Secret};

/// Longest time that an option takes; clocks count nanoseconds in 64 bits.
const MAX_SECONDS: f64 = 365.0 * 24.0 * 3600.0;

/// Lets the parsers of values answer to negative numbers, which are no options.
pub(super) fn allow_negative(argument: Arg) -> Arg {
    let is_flag = !argument.get_action().takes_values();
    if argument.is_positional() || is_flag {
        argument
    } else {
        argument.allow_negative_numbers(true)
    }
}

#[expect(clippy::unnecessary_wraps, reason = "clap's value parsers return a Result")]
pub(super) fn secret(text: &str) -> Result<Secret, String> {
    Ok(Secret::new(text))
}

/// A database, or a connection string in its place, as libpq's programs take it.
#[expect(clippy::unnecessary_wraps, reason = "clap's value parsers return a Result")]
pub(super) fn database(text: &str) -> Result<Database, String> {
    Ok(Database::new(text))
}

pub(super) fn at_least_one(text: &str) -> Result<u32, String> {
    match text.parse::<u64>() {
        Ok(0) => Err("it must be at least 1".to_owned()),
        Ok(number) => u32::try_from(number).map_err(|_| format!("it must be at most {}", u32::MAX)),
        Err(_) => Err("it must be a whole number, at least 1".to_owned()),
    }
}

/// A number that is one; `of` tells what it counts.
fn number(text: &str, of: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(number) if !number.is_nan() => Ok(number),
        _ => Err(format!("it must be a number{of}")),
    }
}

fn positive(number: f64) -> Result<f64, String> {
    match number {
        number if number <= 0.0 => Err("it must be more than 0".to_owned()),
        number if number.is_infinite() => Err("it must be finite".to_owned()),
        number => Ok(number),
    }
}

pub(super) fn positive_number(text: &str) -> Result<f64, String> {
    positive(number(text, "")?)
}

/// A time that clocks can count, from a number of units that each last `unit` seconds.
fn time(number: f64, unit: f64) -> Result<Duration, String> {
    if number < 0.0 {
        return Err("it must not be negative".to_owned());
    }
    let most = MAX_SECONDS / unit;
    if number > most {
        return Err(format!("it must be at most {most} (a year)"));
    }
    Duration::try_from_secs_f64(number * unit).map_err(|error| error.to_string())
}

pub(super) fn seconds(text: &str) -> Result<Duration, String> {
    time(number(text, " of seconds")?, 1.0)
}

pub(super) fn microseconds(text: &str) -> Result<Duration, String> {
    time(number(text, " of microseconds")?, 1e-6)
}

pub(super) fn milliseconds(text: &str) -> Result<Duration, String> {
    time(number(text, " of milliseconds")?, 1e-3)
}

pub(super) fn latency_limit(text: &str) -> Result<Duration, String> {
    let limit = milliseconds(text)?;
    if limit.is_zero() { Err("it must be more than 0".to_owned()) } else { Ok(limit) }
}

/// Transactions a second.
pub(super) fn rate(text: &str) -> Result<f64, String> {
    positive(number(text, " of transactions a second")?)
}

/// A share of the whole.
pub(super) fn sampling_rate(text: &str) -> Result<f64, String> {
    match number(text, "")? {
        share if share > 0.0 && share <= 1.0 => Ok(share),
        _ => Err("it must be more than 0 and at most 1".to_owned()),
    }
}

/// Seconds between progress lines: records arrive 20 times a second.
pub(super) fn progress(text: &str) -> Result<Duration, String> {
    let duration = seconds(text)?;
    if !duration.is_zero() && duration < Duration::from_millis(100) {
        return Err("it must be at least 0.1, or 0 for none".to_owned());
    }
    Ok(duration)
}

pub(super) fn positive_seconds(text: &str) -> Result<Duration, String> {
    let duration = seconds(text)?;
    if duration.is_zero() { Err("it must be more than 0".to_owned()) } else { Ok(duration) }
}

pub(super) fn interval(text: &str) -> Result<Duration, String> {
    let duration = seconds(text)?;
    if duration < Duration::from_millis(100) {
        return Err("it must be at least 0.1".to_owned());
    }
    Ok(duration)
}

/// The kernel wants whole pages, and a power of two.
pub(super) fn ring_bytes(text: &str) -> Result<u32, String> {
    let bytes: u32 = text.parse().map_err(|_| "it must be a number of bytes".to_owned())?;
    // SAFETY: takes a number and returns one.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    let page = u32::try_from(page).unwrap_or(4096);
    if !bytes.is_power_of_two() || bytes < page {
        return Err(format!("it must be a power of two of at least {page}"));
    }
    Ok(bytes)
}

pub(super) fn random_seed(text: &str) -> Result<u64, String> {
    match text {
        "rand" => Ok(fastrand::u64(..)),
        "time" => {
            let since_epoch = std::time::SystemTime::UNIX_EPOCH.elapsed();
            Ok(since_epoch.map_err(|error| error.to_string())?.as_micros() as u64)
        }
        number => number.parse().map_err(|_| "it must be a number, `time` or `rand`".to_owned()),
    }
}
