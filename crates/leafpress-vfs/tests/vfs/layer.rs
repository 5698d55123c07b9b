//! A layer that overrides nothing cannot be told from the file below it.

use std::sync::{Arc, Mutex};

use leafpress_vfs::count::{Counted, IoCounters};
use leafpress_vfs::{
    FileLayer, OpenFlags, Opened, Vfs, VfsFile, VfsLayer, VfsResult, characteristics, register,
};
use rusqlite::Connection;

use crate::errors::busy_session;
use crate::hooked::{Call, Hooked};
use crate::memory_vfs::MemoryVfs;
use crate::through;

/// The VFS with a layer of nothing over each file.
struct Glass<V>(V);

impl<V: Vfs> VfsLayer for Glass<V> {
    fn below(&self) -> &dyn Vfs {
        &self.0
    }

    fn open(&self, path: Option<&str>, flags: OpenFlags) -> VfsResult<Opened> {
        let Opened { file, flags } = self.0.open(path, flags)?;
        Ok(Opened { file: Box::new(GlassFile(file)), flags })
    }
}

struct GlassFile(Box<dyn VfsFile>);

impl FileLayer for GlassFile {
    fn below(&self) -> &dyn VfsFile {
        &*self.0
    }

    fn below_mut(&mut self) -> &mut dyn VfsFile {
        &mut *self.0
    }
}

/// Its answers are no default of any layer.
struct OldDisk(GlassFile);

impl FileLayer for OldDisk {
    fn below(&self) -> &dyn VfsFile {
        &self.0
    }

    fn below_mut(&mut self) -> &mut dyn VfsFile {
        &mut self.0
    }

    fn sector_bytes(&self) -> u32 {
        512
    }

    fn device_characteristics(&self) -> i32 {
        characteristics::UNDELETABLE_WHEN_OPEN
    }
}

/// Every call that a session makes of the VFS at the bottom.
fn calls_of_session<V: Vfs>(name: &str, over: impl Fn(Hooked<MemoryVfs>) -> V) -> Vec<Call> {
    let calls = Arc::new(Mutex::new(Vec::new()));
    let hook = {
        let calls = Arc::clone(&calls);
        move |call| {
            calls.lock().unwrap().push(call);
            Ok(())
        }
    };
    let vfs = over(Hooked::new(MemoryVfs::default(), hook));
    let registration = register(name, vfs).unwrap();
    busy_session(&registration).unwrap();
    drop(registration);
    std::mem::take(&mut calls.lock().unwrap())
}

/// `a_panic_anywhere_is_an_io_error` makes sure that the session makes every call.
#[test]
fn every_call_goes_through_once() {
    let direct = calls_of_session("layer-none", |vfs| vfs);
    assert_eq!(calls_of_session("layer-one", Glass), direct);
    assert_eq!(calls_of_session("layer-two", |vfs| Glass(Glass(vfs))), direct);
    let counted = |vfs| Counted::new(vfs, &IoCounters::new());
    assert_eq!(calls_of_session("layer-counted", counted), direct);
}

#[test]
fn what_the_file_below_is_shows_through() {
    let registration =
        register("layer-no-memory", Glass(MemoryVfs::without_shared_memory())).unwrap();
    let connection: Connection = through(&registration, "a.db");
    let mode: String =
        connection.query_row("PRAGMA journal_mode = wal", (), |row| row.get(0)).unwrap();
    assert_eq!(mode, "delete", "there is no shared memory below");

    let flags = OpenFlags::MAIN_DB | OpenFlags::READ_WRITE | OpenFlags::CREATE;
    let below = MemoryVfs::default().open(Some("/a.db"), flags).unwrap().file;
    let file: Box<dyn VfsFile> = Box::new(GlassFile(Box::new(OldDisk(GlassFile(below)))));
    assert_eq!(file.sector_bytes(), 512);
    assert_eq!(file.device_characteristics(), characteristics::UNDELETABLE_WHEN_OPEN);
}
