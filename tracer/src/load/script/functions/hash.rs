//! Hashes and permutations: the same values as pgbench's, forever.

use super::{Arity, Function};
use crate::load::script::random::Random;
use crate::load::script::value::{EvaluationError, Value};

const HASH: Arity = Arity::OrDefaultSeed(2);

pub(super) const FUNCTIONS: &[Function] = &[
    Function::new("hash", HASH, |_, arguments| with_seed(arguments, murmur2)),
    Function::new("hash_murmur2", HASH, |_, arguments| with_seed(arguments, murmur2)),
    Function::new("hash_fnv1a", HASH, |_, arguments| with_seed(arguments, fnv1a)),
    Function::new("permute", Arity::OrDefaultSeed(3), |_, arguments| {
        let (value, size) = (arguments[0].to_int()?, arguments[1].to_int()?);
        let seed = arguments[2].to_int()?;
        if size <= 0 {
            return Err(EvaluationError::new("permute size parameter must be greater than zero"));
        }
        Ok(Value::Int(permute(value, size, seed)))
    }),
];

fn with_seed(arguments: &[Value], hash: fn(u64, u64) -> u64) -> Result<Value, EvaluationError> {
    let (value, seed) = (arguments[0].to_int()?, arguments[1].to_int()?);
    Ok(Value::Int(hash(value.cast_unsigned(), seed.cast_unsigned()).cast_signed()))
}

/// FNV-1a of the eight bytes, lowest first; the seed changes the starting value.
fn fnv1a(value: u64, seed: u64) -> u64 {
    const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x100_0000_01b3;
    value
        .to_le_bytes()
        .iter()
        .fold(OFFSET ^ seed, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(PRIME))
}

/// MurmurHash2, 64 bits, of one word.
fn murmur2(value: u64, seed: u64) -> u64 {
    const MULTIPLIER: u64 = 0xc6a4_a793_5bd1_e995;
    const SHIFT: u32 = 47;
    let scramble = |word: u64| (word ^ (word >> SHIFT)).wrapping_mul(MULTIPLIER);
    let start = seed ^ MULTIPLIER.wrapping_mul(8);
    let hash = (start ^ scramble(value.wrapping_mul(MULTIPLIER))).wrapping_mul(MULTIPLIER);
    let hash = scramble(hash);
    hash ^ (hash >> SHIFT)
}

/// Where `value`, taken modulo `size`, goes in the permutation of `0..size` that the seed chooses.
///
/// Six rounds; each scrambles the lower and the upper power-of-two part of the range by an odd
/// factor, an exclusive or and a rotation, and then shifts everything.
fn permute(value: i64, size: i64, seed: i64) -> i64 {
    if size < 2 {
        return 0;
    }
    let mut random = Random::new(seed.cast_unsigned());
    let size = size.cast_unsigned();
    let mut position = value.cast_unsigned() % size;
    let width = size.ilog2();
    let mask = (1_u64 << width) - 1;
    for _ in 0..6 {
        position = scramble(&mut random, position, mask, width);
        let mirrored = scramble(&mut random, size - 1 - position, mask, width);
        position = size - 1 - mirrored;
        let offset = random.up_to(size - 1);
        position = position.wrapping_add(offset) % size;
    }
    position.cast_signed()
}

/// Moves `position` within `0..=mask`; a position beyond it stays, but the numbers are drawn.
fn scramble(random: &mut Random, position: u64, mask: u64, width: u32) -> u64 {
    let factor = (random.bits() & mask) | 1;
    let flips = random.bits() & mask;
    if position > mask {
        return position;
    }
    let moved = (position.wrapping_mul(factor) ^ flips) & mask;
    ((moved << 1) & mask) | (moved >> (width - 1))
}
