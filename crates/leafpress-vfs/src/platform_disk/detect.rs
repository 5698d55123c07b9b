//! The kernel's facts about one file: its identity, and its atomic writes.
//!
//! Must never: open the file, since closing it again would drop locks.

use std::io;
use std::os::fd::AsFd;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, FileType, Statx, StatxFlags, statx};

use crate::FileIdentity;
use crate::atomic::{AtomicProof, AtomicUnits, NoAtomicWrites};
use crate::atomic_writes::{AtomicBy, AtomicWrites, WRITE_ATOMIC, units_in};
use crate::device::Device;

/// Facts about a file.
pub(super) struct Facts {
    pub identity: FileIdentity,
    pub is_regular: bool,
    /// The smallest and the largest atomic write, in bytes; `None` if the kernel does not say.
    units: Option<(u32, u32)>,
}

impl Facts {
    /// Facts about the file that `path` names now.
    pub fn of_path(path: &Path) -> io::Result<Self> {
        Ok(Self::from_answer(&statx(CWD, path, AtFlags::empty(), Self::QUESTIONS)?))
    }

    /// Facts about an open file.
    pub fn of_open(file: impl AsFd) -> io::Result<Self> {
        Ok(Self::from_answer(&statx(file, "", AtFlags::EMPTY_PATH, Self::QUESTIONS)?))
    }

    const QUESTIONS: StatxFlags = StatxFlags::TYPE.union(StatxFlags::INO).union(WRITE_ATOMIC);

    fn from_answer(answer: &Statx) -> Self {
        let kind = FileType::from_raw_mode(answer.stx_mode.into());
        Self {
            identity: FileIdentity::from(answer),
            is_regular: kind == FileType::RegularFile,
            units: units_in(answer),
        }
    }

    /// The sizes in which this file can be written atomically, and the proof of it.
    ///
    /// Without `/sys` there is no proof that the disk does it, so it counts as software.
    pub fn atomic_units(&self) -> Result<AtomicUnits, NoAtomicWrites> {
        let (bytes_min, bytes_max) = self.units.ok_or(NoAtomicWrites::NotTold)?;
        if bytes_max == 0 {
            return Err(NoAtomicWrites::NotOffered);
        }
        let device = Device::of_number(self.identity.device_numbers());
        let device_max = device.and_then(|it| it.atomic_write_unit_max_bytes);
        let by = match AtomicWrites::from_answers(self.units, device_max).by {
            AtomicBy::Hardware => AtomicProof::Hardware,
            _ => AtomicProof::Software,
        };
        Ok(AtomicUnits { bytes_min, bytes_max, by })
    }
}
