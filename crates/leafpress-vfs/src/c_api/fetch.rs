//! Hints to the processor: memory that will be read soon.

/// Has the processor fetch the cache line of the byte at `at`, without waiting for it. Nothing happens
/// where `bytes` has no such byte.
///
/// Code that visits memory in no order waits for each place in turn; with hints a few places ahead the
/// processor fetches them all at once.
#[inline(always)]
pub fn fetch_ahead(bytes: &[u8], at: usize) {
    let Some(byte) = bytes.get(at) else { return };
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the instruction changes nothing but caches, whatever the address is; and this is one of
    // a byte that is borrowed. Every processor of this kind has it.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(byte).cast());
    }
    // Reading it has the same effect, though fewer reads are under way at once.
    #[cfg(not(target_arch = "x86_64"))]
    std::hint::black_box(*byte);
}
