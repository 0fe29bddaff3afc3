//! Searches the eight words of a bucket: all at once with SSE2, which every x86-64 has, otherwise
//! one by one.

use crate::index::word::Word;
use std::ptr::NonNull;

/// Returns a bit mask of the lanes of a bucket with this fingerprint; empty lanes match 0.
///
/// # Safety
/// This is the first word of a bucket of a segment whose latch is held.
#[inline]
pub(crate) unsafe fn of_fingerprint(bucket: NonNull<Word>, fingerprint: u16) -> u32 {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        // SAFETY: the caller guarantees it.
        simd::of_fingerprint(unsafe { simd::read(bucket) }, fingerprint)
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    {
        // SAFETY: the caller guarantees it.
        unsafe { scalar::of_fingerprint(bucket, fingerprint) }
    }
}

/// Like [`of_fingerprint`], without the latch: another thread may be writing the words.
///
/// # Safety
/// This is the first word of a bucket of a segment, which may have been freed.
#[inline]
pub(crate) unsafe fn of_fingerprint_unlatched(bucket: NonNull<Word>, fingerprint: u16) -> u32 {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        // SAFETY: the caller guarantees it.
        simd::of_fingerprint(unsafe { simd::read_unlatched(bucket) }, fingerprint)
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    {
        // SAFETY: the caller guarantees it.
        unsafe { scalar::of_fingerprint(bucket, fingerprint) }
    }
}

/// Returns a bit mask of the empty lanes of a bucket.
///
/// # Safety
/// As for [`of_fingerprint`].
#[inline]
pub(crate) unsafe fn empty(bucket: NonNull<Word>) -> u32 {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        // SAFETY: the caller guarantees it.
        simd::empty(unsafe { simd::read(bucket) })
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    {
        // SAFETY: the caller guarantees it.
        unsafe { scalar::empty(bucket) }
    }
}

#[cfg(any(test, miri, not(target_arch = "x86_64")))]
mod scalar {
    use super::{NonNull, Word};
    use crate::index::word::{LANES, UnlatchedWord};

    /// # Safety
    /// As for [`super::of_fingerprint_unlatched`].
    pub(super) unsafe fn of_fingerprint(bucket: NonNull<Word>, fingerprint: u16) -> u32 {
        // SAFETY: the caller guarantees it.
        unsafe { lanes(bucket, |word| word.fingerprint() == fingerprint) }
    }

    /// # Safety
    /// As for [`super::of_fingerprint_unlatched`].
    pub(super) unsafe fn empty(bucket: NonNull<Word>) -> u32 {
        // SAFETY: the caller guarantees it.
        unsafe { lanes(bucket, UnlatchedWord::is_null) }
    }

    /// # Safety
    /// As for [`super::of_fingerprint_unlatched`].
    unsafe fn lanes(bucket: NonNull<Word>, wanted: impl Fn(UnlatchedWord) -> bool) -> u32 {
        (0..LANES).fold(0, |mask, lane| {
            // SAFETY: a bucket has this many words.
            let word = unsafe { UnlatchedWord::load(bucket.add(lane)) };
            mask | u32::from(wanted(word)) << lane
        })
    }
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
mod simd {
    use super::{NonNull, Word};
    use std::arch::asm;
    use std::arch::x86_64::{
        __m128i, _mm_castps_si128, _mm_castsi128_ps, _mm_cmpeq_epi16, _mm_cmpeq_epi32,
        _mm_load_si128, _mm_movemask_epi8, _mm_or_si128, _mm_packs_epi16, _mm_packs_epi32,
        _mm_set1_epi16, _mm_setzero_si128, _mm_shuffle_ps, _mm_srai_epi32,
    };

    /// Selects the upper halves of four words.
    const UPPER: i32 = 0b11_01_11_01;
    /// Selects the lower halves of four words.
    const LOWER: i32 = 0b10_00_10_00;

    /// The cache line of a bucket: two words in each part.
    type Line = [__m128i; 4];

    /// # Safety
    /// As for [`super::of_fingerprint`].
    #[inline]
    pub(super) unsafe fn read(bucket: NonNull<Word>) -> Line {
        let line = bucket.cast::<__m128i>();
        // SAFETY: the caller guarantees it: a bucket is 64 bytes, aligned to 64, and nothing is
        // written there while the latch is held.
        [0, 1, 2, 3].map(|part| unsafe { _mm_load_si128(line.add(part).as_ptr()) })
    }

    /// # Safety
    /// As for [`super::of_fingerprint_unlatched`].
    #[inline]
    pub(super) unsafe fn read_unlatched(bucket: NonNull<Word>) -> Line {
        let (first, second, third, fourth);
        // SAFETY: the memory of a segment stays mapped and is never used for anything else. Each
        // instruction is equivalent to two relaxed atomic loads of words, since the processor never
        // tears an aligned word. The language has no such operation.
        unsafe {
            asm!(
                "movdqa {first}, [{line}]",
                "movdqa {second}, [{line} + 16]",
                "movdqa {third}, [{line} + 32]",
                "movdqa {fourth}, [{line} + 48]",
                line = in(reg) bucket.as_ptr(),
                first = out(xmm_reg) first,
                second = out(xmm_reg) second,
                third = out(xmm_reg) third,
                fourth = out(xmm_reg) fourth,
                options(nostack, preserves_flags, readonly),
            );
        }
        [first, second, third, fourth]
    }

    #[inline]
    pub(super) fn of_fingerprint(line: Line, fingerprint: u16) -> u32 {
        // SAFETY: SSE2 is part of x86-64.
        unsafe {
            let wanted = _mm_set1_epi16(fingerprint as i16);
            // The fingerprint is the upper half of the upper half; the shift extends its sign over
            // the rest.
            let equal = |half| _mm_srai_epi32::<16>(_mm_cmpeq_epi16(half, wanted));
            let (first, second) = halves::<UPPER>(line);
            mask(equal(first), equal(second))
        }
    }

    #[inline]
    pub(super) fn empty(line: Line) -> u32 {
        // SAFETY: SSE2 is part of x86-64.
        unsafe {
            let zero = _mm_setzero_si128();
            let (upper, lower) = (halves::<UPPER>(line), halves::<LOWER>(line));
            let first = _mm_cmpeq_epi32(_mm_or_si128(upper.0, lower.0), zero);
            let second = _mm_cmpeq_epi32(_mm_or_si128(upper.1, lower.1), zero);
            mask(first, second)
        }
    }

    /// Returns one half of each word: of the first four words, and of the last four.
    #[inline]
    fn halves<const WHICH: i32>([first, second, third, fourth]: Line) -> (__m128i, __m128i) {
        // SAFETY: SSE2 is part of x86-64.
        let pick = |one, other| unsafe {
            let (one, other) = (_mm_castsi128_ps(one), _mm_castsi128_ps(other));
            _mm_castps_si128(_mm_shuffle_ps::<WHICH>(one, other))
        };
        (pick(first, second), pick(third, fourth))
    }

    /// Returns a bit for each of eight lanes whose 32 bits are all set.
    #[inline]
    fn mask(first: __m128i, second: __m128i) -> u32 {
        // SAFETY: SSE2 is part of x86-64.
        unsafe {
            let words = _mm_packs_epi32(first, second);
            _mm_movemask_epi8(_mm_packs_epi16(words, _mm_setzero_si128())) as u32
        }
    }
}

#[cfg(all(test, target_arch = "x86_64", not(miri)))]
mod tests {
    use super::*;
    use crate::index::word::{LANES, UnlatchedWord};
    use proptest::prelude::*;

    #[repr(align(64))]
    struct Bucket([Word; LANES]);

    proptest! {
        #[test]
        fn simd_equals_scalar(words: [u64; 8], pick in 0..8_usize, zeros: u8, wanted: u16) {
            let mut bucket = Bucket(words.map(Word::from_bits));
            for lane in 0..LANES {
                if zeros >> lane & 1 == 1 {
                    bucket.0[lane] = Word::EMPTY;
                }
            }
            let start = NonNull::from(&bucket.0).cast::<Word>();
            // SAFETY: these are eight words, aligned as in a segment, and local to this test.
            unsafe {
                let picked = UnlatchedWord::load(start.add(pick)).fingerprint();
                for fingerprint in [wanted, picked, 0] {
                    let expected = scalar::of_fingerprint(start, fingerprint);
                    prop_assert_eq!(of_fingerprint(start, fingerprint), expected);
                    prop_assert_eq!(of_fingerprint_unlatched(start, fingerprint), expected);
                }
                prop_assert_eq!(empty(start), scalar::empty(start));
            }
        }
    }
}
