//! The checksum of long inputs, by multiplication without carry: 64 bytes at a time, where the
//! table takes 16 with a step that waits for the one before.
//!
//! A message is a polynomial, and its checksum what is left of it after division. Sixteen bytes
//! `a * x^64 + b` that stand `d` bits before others can be added to those as `a * k + b * l`, with
//! `k = x^(d+64)` and `l = x^d` divided in advance, and leave the same. Bits are reflected, which
//! makes each product one bit short: hence the exponents below are one less. The method is that of
//! Gopal and others, "Fast CRC Computation for Generic Polynomials Using PCLMULQDQ", 2009.

use super::table;
use std::arch::x86_64::{
    __m128i, _mm_clmulepi64_si128, _mm_cvtsi128_si64, _mm_set_epi64x, _mm_unpackhi_epi64,
    _mm_xor_si128,
};

/// Jones' polynomial without its first term.
const POLYNOMIAL: u64 = 0xad93_d235_94c9_35a9;

/// What is folded at once, in four lanes that do not wait for each other.
const STEP_BYTES: usize = 64;

/// `x` to the power of `exponent`, divided, with its bits reflected.
const fn power(exponent: u32) -> u64 {
    let mut rest: u64 = 1;
    let mut done = 0;
    while done < exponent {
        let carry = rest >> 63 != 0;
        rest <<= 1;
        if carry {
            rest ^= POLYNOMIAL;
        }
        done += 1;
    }
    rest.reverse_bits()
}

/// Factors for bytes that stand 512, and 128 bits before those that they are added to.
const FAR: [u64; 2] = [power(512 + 63), power(511)];
const NEAR: [u64; 2] = [power(128 + 63), power(127)];

/// Goes on over as much of `bytes` as can be done in steps, and returns the rest.
pub(super) fn add<'a>(sum: &mut u64, bytes: &'a [u8]) -> &'a [u8] {
    let (steps, rest) = bytes.as_chunks::<STEP_BYTES>();
    if steps.len() < 2 || !is_x86_feature_detected!("pclmulqdq") {
        return bytes;
    }
    // SAFETY: the processor has just said that it has the instruction.
    *sum = unsafe { fold(*sum, steps) };
    rest
}

#[target_feature(enable = "pclmulqdq")]
fn fold(sum: u64, steps: &[[u8; STEP_BYTES]]) -> u64 {
    let Some((first, steps)) = steps.split_first() else { return sum };
    let mut lanes = lanes(first);
    // What was summed before is added to the first bytes that follow it.
    let [one, ..] = &mut lanes;
    *one = _mm_xor_si128(*one, pair([sum, 0]));
    let far = pair(FAR);
    for step in steps {
        let [a, b, c, d] = lanes;
        let [e, f, g, h] = self::lanes(step);
        lanes = [join(a, far, e), join(b, far, f), join(c, far, g), join(d, far, h)];
    }
    let near = pair(NEAR);
    let [a, b, c, d] = lanes;
    let last = join(join(join(a, near, b), near, c), near, d);
    let low = _mm_cvtsi128_si64(last) as u64;
    let high = _mm_cvtsi128_si64(_mm_unpackhi_epi64(last, last)) as u64;
    table::add(table::add(0, &low.to_le_bytes()), &high.to_le_bytes())
}

/// Adds `before`, moved by the distance that `factors` are for, to `next`.
#[target_feature(enable = "pclmulqdq")]
fn join(before: __m128i, factors: __m128i, next: __m128i) -> __m128i {
    let first = _mm_clmulepi64_si128::<0x00>(before, factors);
    let second = _mm_clmulepi64_si128::<0x11>(before, factors);
    _mm_xor_si128(_mm_xor_si128(first, second), next)
}

#[target_feature(enable = "pclmulqdq")]
fn lanes(step: &[u8; STEP_BYTES]) -> [__m128i; 4] {
    let (words, _) = step.as_chunks::<8>();
    let word = |at: usize| words.get(at).map_or(0, |word| u64::from_le_bytes(*word));
    [0, 2, 4, 6].map(|at| pair([word(at), word(at + 1)]))
}

#[target_feature(enable = "pclmulqdq")]
fn pair([low, high]: [u64; 2]) -> __m128i {
    _mm_set_epi64x(high as i64, low as i64)
}
