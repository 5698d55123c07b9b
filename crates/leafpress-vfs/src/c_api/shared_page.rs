//! A page of memory that processes share: numbers, and words by which they wake one another.
//!
//! The page is a file's first 4,096 bytes, mapped. All that is in it are atomics, for which any
//! bytes are valid, so a process that writes nonsense there can mislead others and do no other
//! harm. A child of `fork` finds empty memory in its place, as for the mappings of SQLite.
//!
//! Must never: be mapped from a file that is shorter, or hand out anything but atomics.

use std::fmt;
use std::sync::atomic::{AtomicU32, AtomicU64};

/// Bytes of a page.
pub const PAGE_BYTES: usize = 4_096;

/// The layout of the page.
#[derive(Debug)]
#[repr(C)]
pub struct SharedNumbers {
    /// Counters and words.
    pub numbers: [AtomicU64; 256],
    /// Words that a thread can sleep on until another one changes them.
    pub wake_words: [AtomicU32; 512],
}

impl SharedNumbers {
    fn zeros() -> Box<Self> {
        Box::new(Self {
            numbers: [const { AtomicU64::new(0) }; 256],
            wake_words: [const { AtomicU32::new(0) }; 512],
        })
    }
}

const _: () = assert!(size_of::<SharedNumbers>() == PAGE_BYTES);

/// A page of memory that processes share: numbers, and words by which they wake one another.
///
/// A process that cuts the file ends each process that looks at the page with a signal, as it does by
/// cutting a `-shm` file of SQLite.
pub struct SharedPage(Memory);

enum Memory {
    /// The file's bytes.
    #[cfg(unix)]
    Mapped(std::ptr::NonNull<SharedNumbers>),
    /// Memory of this process alone.
    Own(Box<SharedNumbers>),
}

// SAFETY: the memory holds atomics only, and is mapped until this is dropped: in a child of `fork` empty
// memory takes the file's place, at the same address.
unsafe impl Send for SharedPage {}
// SAFETY: as above.
unsafe impl Sync for SharedPage {}

impl SharedPage {
    /// A page that the threads of this process share, for tests.
    pub fn of_this_process() -> Self {
        Self(Memory::Own(SharedNumbers::zeros()))
    }

    /// Maps the first bytes of `file`, which must be as long as a page and open for writing.
    ///
    /// # Errors
    /// The system's; the file is too short. Nothing is mapped.
    #[cfg(unix)]
    pub fn map(file: &std::fs::File) -> std::io::Result<Self> {
        use std::os::fd::AsRawFd as _;

        if file.metadata()?.len() < PAGE_BYTES as u64 {
            return Err(std::io::Error::other("the file is too short"));
        }
        // SAFETY: a new mapping, at an address that the system chooses, of a file that is open.
        let start = unsafe {
            super::mappings::map(
                std::ptr::null_mut(),
                PAGE_BYTES,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(std::io::Error::last_os_error());
        }
        let start = std::ptr::NonNull::new(start.cast::<SharedNumbers>());
        start.map(|start| Self(Memory::Mapped(start))).ok_or_else(std::io::Error::last_os_error)
    }
}

impl std::ops::Deref for SharedPage {
    type Target = SharedNumbers;

    fn deref(&self) -> &SharedNumbers {
        match &self.0 {
            // SAFETY: mapped, aligned to a page, as long as the type, until `self` is dropped; other
            // threads and processes reach it by atomics only, and any bytes are valid.
            #[cfg(unix)]
            Memory::Mapped(start) => unsafe { start.as_ref() },
            Memory::Own(numbers) => numbers,
        }
    }
}

impl Drop for SharedPage {
    fn drop(&mut self) {
        #[cfg(unix)]
        if let Memory::Mapped(start) = &self.0 {
            // SAFETY: mapped by `map` with this length, and no reference outlives `self`.
            unsafe { super::mappings::unmap(start.as_ptr().cast(), PAGE_BYTES) };
        }
    }
}

impl fmt::Debug for SharedPage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedPage").finish_non_exhaustive()
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::io::Write as _;
    use std::sync::atomic::Ordering;

    use super::*;

    #[test]
    fn two_mappings_of_a_file_are_one_page() {
        let mut file = tempfile::tempfile().unwrap();
        assert!(SharedPage::map(&file).is_err(), "an empty file");
        file.write_all(&[0; PAGE_BYTES]).unwrap();
        let (one, other) = (SharedPage::map(&file).unwrap(), SharedPage::map(&file).unwrap());
        drop(file);
        one.numbers[3].store(7, Ordering::Release);
        one.wake_words[511].store(8, Ordering::Release);
        assert_eq!(other.numbers[3].load(Ordering::Acquire), 7);
        assert_eq!(other.wake_words[511].load(Ordering::Acquire), 8);
        drop(one);
        assert_eq!(other.numbers[3].load(Ordering::Acquire), 7);
    }
}
