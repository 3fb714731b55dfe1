//! Parsers of option values.

use std::time::Duration;

use crate::load::Secret;

/// Longest time that an option takes; clocks count nanoseconds in 64 bits.
const MAX_SECONDS: f64 = 365.0 * 24.0 * 3600.0;

#[expect(clippy::unnecessary_wraps, reason = "clap's value parsers return a Result")]
pub(super) fn secret(text: &str) -> Result<Secret, String> {
    Ok(Secret::new(text))
}

pub(super) fn at_least_one(text: &str) -> Result<u32, String> {
    match text.parse() {
        Ok(0) => Err("it must be at least 1".to_owned()),
        Ok(number) => Ok(number),
        Err(error) => Err(error.to_string()),
    }
}

pub(super) fn positive_number(text: &str) -> Result<f64, String> {
    let number: f64 = text.parse().map_err(|_| "it must be a number".to_owned())?;
    if number > 0.0 && number.is_finite() {
        Ok(number)
    } else {
        Err("it must be more than 0".to_owned())
    }
}

pub(super) fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "it must be a number of seconds".to_owned())?;
    if seconds > MAX_SECONDS {
        return Err(format!("it must be at most {MAX_SECONDS} (a year)"));
    }
    Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())
}

pub(super) fn microseconds(text: &str) -> Result<Duration, String> {
    let number: f64 = text.parse().map_err(|_| "it must be a number of microseconds".to_owned())?;
    Duration::try_from_secs_f64(number / 1e6).map_err(|error| error.to_string())
}

pub(super) fn milliseconds(text: &str) -> Result<Duration, String> {
    let number: f64 = text.parse().map_err(|_| "it must be a number of milliseconds".to_owned())?;
    if number > MAX_SECONDS * 1e3 {
        return Err("it must be at most a year".to_owned());
    }
    Duration::try_from_secs_f64(number / 1e3).map_err(|error| error.to_string())
}

pub(super) fn latency_limit(text: &str) -> Result<Duration, String> {
    let limit = milliseconds(text)?;
    if limit.is_zero() { Err("it must be more than 0".to_owned()) } else { Ok(limit) }
}

/// Transactions a second.
pub(super) fn rate(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(rate) if rate.is_finite() && rate > 0.0 => Ok(rate),
        Ok(_) => Err("it must be more than 0".to_owned()),
        Err(_) => Err("it must be a number of transactions a second".to_owned()),
    }
}

/// A share of the whole.
pub(super) fn sampling_rate(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(share) if share > 0.0 && share <= 1.0 => Ok(share),
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
