//! Numbers as people read them: three significant digits and a unit.

/// A duration: `412 us`, `2.59 ms`, `11.2 s`.
pub fn duration(ns: f64) -> String {
    scaled(ns, 1000.0, &["ns", "us", "ms", "s"])
}

/// A time that somebody chose: `15 s`, `1.5 s`, `412 ms`.
pub fn chosen_duration(ns: u64) -> String {
    match ns as f64 / 1e9 {
        seconds if ns.is_multiple_of(100_000_000) => format!("{seconds} s"),
        _ => duration(ns as f64),
    }
}

/// A size: `12.3 MiB`.
pub fn bytes(count: u64) -> String {
    scaled(count as f64, 1024.0, &["B", "KiB", "MiB", "GiB", "TiB"])
}

fn scaled(value: f64, step: f64, units: &[&str]) -> String {
    let mut value = value;
    let mut index = 0;
    while index + 1 < units.len() && rounded(value) >= step {
        value /= step;
        index += 1;
    }
    // The smallest unit counts: `7 ns`, not `7.00 ns`.
    let whole = index == 0 && value.fract() == 0.0;
    let number = if whole { format!("{value:.0}") } else { significant(value) };
    format!("{number} {}", units[index])
}

fn rounded(value: f64) -> f64 {
    if value.abs() >= 100.0 { value.round() } else { value }
}

/// Three significant digits, never an exponent: `0.00712`, `2.59`, `41.2`, `1,234`.
pub fn significant(value: f64) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    // Rounding first: 9.996 has two digits before the point, not one.
    let exponent = value.abs().log10().floor();
    let rounded = (value / 10_f64.powf(exponent - 2.0)).round() * 10_f64.powf(exponent - 2.0);
    let decimals = (2.0 - rounded.abs().log10().floor()).clamp(0.0, 12.0) as usize;
    if decimals == 0 {
        return grouped(value);
    }
    format!("{value:.decimals$}")
}

/// A count with its thousands apart: `1,204,331`.
pub fn count(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn grouped(value: f64) -> String {
    let whole = count(value.abs().round() as u64);
    if value < 0.0 { format!("-{whole}") } else { whole }
}

/// A count in a narrow column: `981`, `12.3k`, `1.20M`.
pub fn short_count(value: u64) -> String {
    if value < 10_000 {
        return value.to_string();
    }
    scaled(value as f64, 1000.0, &["", "k", "M", "G", "T"]).replace(' ', "")
}

/// Nanoseconds or events per transaction in a column: `310,442`, `41.2`, `0.03`.
pub fn rate(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_owned(),
        size if size < 0.005 => "<0.01".to_owned(),
        size if size < 9.995 => format!("{value:.2}"),
        size if size < 99.95 => format!("{value:.1}"),
        _ => grouped(value),
    }
}

/// A share of one as a percentage: `12.3 %`, `<0.1 %`.
pub fn percent(share: f64) -> String {
    match share.abs() * 100.0 {
        0.0 => "0 %".to_owned(),
        size if size < 0.05 => "<0.1 %".to_owned(),
        size if size > 99.95 && size < 100.0 => ">99.9 %".to_owned(),
        _ => format!("{:.1} %", share * 100.0),
    }
}

/// A change: `+12.3 us`, `-7 ns`.
pub fn signed_duration(ns: f64) -> String {
    format!("{}{}", if ns < 0.0 { '-' } else { '+' }, duration(ns.abs()))
}

/// A relative change: `+12.3 %`, `-0.04 %`, `+1,240 %`.
pub fn signed_percent(share: f64) -> String {
    let sign = if share < 0.0 { '-' } else { '+' };
    match share.abs() * 100.0 {
        size if size >= 999.5 => format!("{sign}{} %", grouped(size)),
        size if size >= 0.095 || size == 0.0 => format!("{sign}{size:.1} %"),
        size => format!("{sign}{size:.2} %"),
    }
}

/// `1 pair`, `3 pairs`; `2 replies`, `2 processes`.
pub fn plural(value: u64, noun: &str) -> String {
    if value == 1 {
        return format!("1 {noun}");
    }
    let is_vowel = |c: char| "aeiou".contains(c);
    let many = match noun.strip_suffix('y') {
        Some(stem) if !stem.ends_with(is_vowel) => format!("{stem}ies"),
        _ if noun.ends_with('s') => format!("{noun}es"),
        _ => format!("{noun}s"),
    };
    format!("{} {many}", count(value))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn durations_have_three_digits_and_the_unit_that_fits() {
        for (ns, expected) in [
            (0.0, "0 ns"),
            (7.0, "7 ns"),
            (0.031, "0.0310 ns"),
            (412.3, "412 ns"),
            (999.4, "999 ns"),
            (999.6, "1.00 us"),
            (1000.0, "1.00 us"),
            (21_000_000.0, "21.0 ms"),
            (2_591_000.0, "2.59 ms"),
            (9_996.0, "10.0 us"),
            (99_960.0, "100 us"),
            (11_214_000_000.0, "11.2 s"),
            (1_234_000_000_000.0, "1,234 s"),
        ] {
            assert_eq!(duration(ns), expected);
        }
    }

    #[test]
    fn counts_rates_shares_and_sizes() {
        assert_eq!([count(0), count(999), count(1_204_331)], ["0", "999", "1,204,331"]);
        assert_eq!(
            [short_count(9_999), short_count(12_345), short_count(1_204_331)],
            ["9999", "12.3k", "1.20M"]
        );
        assert_eq!(
            [rate(0.0), rate(0.001), rate(9.999), rate(41.23), rate(310_442.4)],
            ["0", "<0.01", "10.0", "41.2", "310,442"]
        );
        assert_eq!(
            [percent(0.0), percent(1e-5), percent(0.1234), percent(0.99999)],
            ["0 %", "<0.1 %", "12.3 %", ">99.9 %"]
        );
        assert_eq!(
            [chosen_duration(15_000_000_000), chosen_duration(1_500_000_000)],
            ["15 s", "1.5 s"]
        );
        assert_eq!(chosen_duration(412_345_678), "412 ms");
        assert_eq!([bytes(512), bytes(12_897_485)], ["512 B", "12.3 MiB"]);
        assert_eq!([plural(1, "pair"), plural(1200, "pair")], ["1 pair", "1,200 pairs"]);
        let irregular = ["retry", "process", "day"].map(|noun| plural(2, noun));
        assert_eq!(irregular, ["2 retries", "2 processes", "2 days"]);
        assert_eq!([plural(0, "reply"), plural(1, "process")], ["0 replies", "1 process"]);
    }

    #[test]
    fn changes_have_a_sign() {
        assert_eq!(
            [signed_duration(-412.3), signed_duration(2_591_000.0)],
            ["-412 ns", "+2.59 ms"]
        );
        assert_eq!(
            [
                signed_percent(0.319),
                signed_percent(-0.0004),
                signed_percent(12.4),
                signed_percent(0.0)
            ],
            ["+31.9 %", "-0.04 %", "+1,240 %", "+0.0 %"]
        );
    }

    proptest! {
        #[test]
        fn a_duration_is_right_to_half_a_percent(ns in 0.001_f64..1e15) {
            let text = duration(ns);
            let (number, unit) = text.split_once(' ').unwrap();
            let factor = match unit { "ns" => 1.0, "us" => 1e3, "ms" => 1e6, _ => 1e9 };
            let value: f64 = number.replace(',', "").parse().unwrap();
            prop_assert!((value * factor / ns - 1.0).abs() <= 0.005, "{ns} became {text}");
        }
    }
}
