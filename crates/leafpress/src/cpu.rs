//! Instructions that the processor at hand has beyond those that all of its kind have.
//!
//! Must never: change a result. What runs here gives the same with and without them.

#[cfg(target_arch = "x86_64")]
use fearless_simd::{Level, Simd as _};

/// Runs `work`, compiled for processors with AVX2 where this is one, else for all.
///
/// Only what is inlined into `work` is compiled so: the closure itself needs `#[inline(always)]`.
#[inline(always)]
pub fn with_wide_instructions<R>(work: impl FnOnce() -> R) -> R {
    #[cfg(target_arch = "x86_64")]
    if let Some(avx2) = Level::new().as_avx2() {
        return avx2.vectorize(work);
    }
    work()
}
