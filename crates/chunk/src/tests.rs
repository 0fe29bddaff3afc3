//! Tests of chunks. Each test that counts blocks of the process holds a lock.

use crate::pool::{self, BLOCK_BYTES};
use crate::{CHUNK_BYTES, Chunk, UninitChunk};
use parking_lot::{Mutex, MutexGuard};
use proptest::prelude::*;

fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock()
}

#[test]
#[cfg(not(miri))]
fn blocks_are_reused_and_unused_blocks_are_freed() {
    let _alone = alone();
    let chunks: Vec<Chunk> = (0..200).map(|_| Chunk::from(vec![7; CHUNK_BYTES])).collect();
    assert_eq!(pool::used_bytes(), 200 * BLOCK_BYTES);
    let places: Vec<*const u8> = chunks.iter().map(|chunk| chunk.as_ptr()).collect();
    drop(chunks);
    assert_eq!(pool::used_bytes(), 0);
    pool::cool();
    assert!(pool::warm() >= 200, "they have been in use of late");
    pool::cool();
    assert_eq!(pool::warm(), 0, "and now they have not");
    let mut again = UninitChunk::new(CHUNK_BYTES);
    assert!(places.contains(&again.room().as_ptr()), "addresses are kept");
    assert!(again.room().iter().all(|byte| *byte == 0), "the kernel has taken what was there");
}

#[test]
#[cfg(not(miri))]
fn only_full_chunks_use_a_block() {
    let _alone = alone();
    let before = pool::used_bytes();
    let shorter = Chunk::zeros(CHUNK_BYTES - 1);
    assert_eq!(pool::used_bytes(), before);
    let full = Chunk::zeros(CHUNK_BYTES);
    let shared = full.clone();
    assert_eq!(pool::used_bytes(), before + BLOCK_BYTES);
    drop((full, shorter));
    assert_eq!(pool::used_bytes(), before + BLOCK_BYTES, "it is shared still");
    drop(shared);
    assert_eq!(pool::used_bytes(), before);
}

#[test]
fn shared_chunk_is_copied_on_write() {
    let _alone = alone();
    for len in [5, CHUNK_BYTES] {
        let mut chunk = Chunk::zeros(len);
        let start = chunk.as_ptr();
        chunk.make_mut()[1] = 1;
        assert_eq!(chunk.as_ptr(), start, "it is not shared");
        let shared = chunk.clone();
        assert!(chunk.is_same(&shared) && chunk.get_mut().is_none());
        chunk.make_mut()[2] = 2;
        assert!(!chunk.is_same(&shared));
        assert_eq!((&chunk[..4], &shared[..4]), (&[0, 1, 2, 0][..], &[0, 1, 0, 0][..]));
    }
}

#[test]
fn unwritten_bytes_are_zero() {
    let _alone = alone();
    drop(Chunk::from(vec![9; CHUNK_BYTES]));
    let mut chunk = UninitChunk::new(CHUNK_BYTES);
    chunk.append(b"ab");
    let chunk = chunk.finish();
    assert!(chunk.starts_with(b"ab") && chunk[2..].iter().all(|byte| *byte == 0));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20))]

    #[test]
    fn appended_bytes_are_readable(
        len in prop_oneof![0..40_usize, Just(CHUNK_BYTES)],
        pieces in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..30), 0..9),
    ) {
        let _alone = alone();
        let mut chunk = UninitChunk::new(len);
        let mut model = Vec::new();
        for piece in pieces {
            let taken = chunk.append(&piece);
            prop_assert_eq!(taken, piece.len().min(len - model.len()));
            model.extend_from_slice(&piece[..taken]);
            let left = len - model.len();
            prop_assert_eq!((chunk.written(), chunk.room().len()), (model.len(), left));
        }
        model.resize(len, 0);
        prop_assert_eq!(&chunk.finish()[..], &model[..]);
    }
}
