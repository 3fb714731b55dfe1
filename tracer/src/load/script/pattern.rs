//! Random texts after a pattern, as sysbench makes them.

use super::random::Random;

/// Appends `pattern` with a random digit for each `#` and a random letter for each `@`.
pub(crate) fn write_pattern(pattern: &[u8], random: &mut Random, out: &mut Vec<u8>) {
    out.extend(pattern.iter().map(|&byte| match byte {
        b'#' => b'0' + random.up_to(9) as u8,
        b'@' => b'a' + random.up_to(25) as u8,
        other => other,
    }));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_two_signs_are_replaced() {
        let mut random = Random::new(3);
        let mut out = Vec::new();
        write_pattern("##-@@ä".as_bytes(), &mut random, &mut out);
        assert_eq!(out.len(), "##-@@ä".len());
        assert!(out[..2].iter().all(u8::is_ascii_digit), "{out:?}");
        assert!(out[3..5].iter().all(u8::is_ascii_lowercase), "{out:?}");
        assert_eq!(&out[5..], "ä".as_bytes());
    }
}
