//! Whole measurements of real folders, and what cannot be measured.

use super::*;

fn short() -> StorageOptions {
    StorageOptions::default().time(Duration::from_millis(1))
}

fn names_in(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    entries.map(|it| it.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn a_folder_and_a_database_in_it_are_measured_alike() {
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("app.db");
    fs::write(&database, "not touched").unwrap();
    for path in [folder.path().to_owned(), database.clone(), folder.path().join("new.db")] {
        let found = measure(&path, &short()).unwrap();
        assert_eq!(found.path, path);
        assert_eq!(found.folder, dunce::canonicalize(folder.path()).unwrap());
        if cfg!(unix) {
            assert!(found.free_bytes.is_some());
        }
    }
    assert_eq!(names_in(folder.path()), ["app.db"]);
    assert_eq!(fs::read(&database).unwrap(), b"not touched");
}

#[test]
#[cfg(unix)]
fn a_link_is_measured_where_it_leads() {
    let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let database = there.path().join("app.db");
    fs::write(&database, "").unwrap();
    let link = here.path().join("link.db");
    std::os::unix::fs::symlink(&database, &link).unwrap();
    let found = measure(&link, &short()).unwrap();
    assert_eq!(found.folder, dunce::canonicalize(there.path()).unwrap());
}

#[test]
fn what_cannot_be_measured_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    for (path, expected) in [
        (folder.path().join("none/app.db"), "name a folder that is there"),
        (file.join("app.db"), if cfg!(windows) { "is not a folder" } else { "cannot look at" }),
        (PathBuf::new(), "no path was named"),
    ] {
        let error = measure(&path, &short()).unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
        assert_eq!(error.state_on_disk(), Some(NOTHING_STAYED));
    }
    assert_eq!(names_in(folder.path()), ["file"]);
}

#[test]
#[cfg(target_os = "linux")]
fn a_folder_that_cannot_be_written_to_is_said() {
    // Not even root makes a file there.
    let error = measure("/proc/self", &short()).unwrap_err().to_string();
    assert!(error.contains("make a file to measure with"), "{error}");
    assert!(error.contains("that you may write to"), "{error}");
}

#[test]
fn a_stop_ends_it_as_one() {
    let folder = tempfile::tempdir().unwrap();
    let error = measure(folder.path(), &short().stop_when(|| true)).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Cancelled), "{error}");
    assert_eq!(names_in(folder.path()), Vec::<String>::new());
}

#[test]
#[cfg(target_os = "linux")]
fn memory_is_known() {
    let shared_memory = Path::new("/dev/shm");
    if shared_memory.is_dir() {
        let folder = tempfile::tempdir_in(shared_memory).unwrap();
        let found = measure(folder.path(), &short()).unwrap();
        assert_eq!(found.file_system.nature, Nature::Memory);
        assert_eq!(found.device, None);
    }
}

#[test]
fn a_library_that_eats_syncs_is_noticed() {
    assert!(!syncs_are_disarmed(None));
    assert!(!syncs_are_disarmed(Some(OsStr::new("/usr/lib/libjemalloc.so"))));
    assert!(syncs_are_disarmed(Some(OsStr::new("/usr/lib/libeatmydata.so:/x.so"))));
}

#[test]
fn the_findings_are_an_object_with_names_for_everything() {
    let folder = tempfile::tempdir().unwrap();
    let found = measure(folder.path(), &short()).unwrap();
    let json = serde_json::to_value(&found).unwrap();
    assert_eq!(json["file_system"]["kind"], found.file_system.kind);
    assert!(json["file_system"]["nature"].is_string(), "{json}");
    assert!(json["atomic_writes"]["by"].is_string(), "{json}");
    let p50_us = found.measured.sync_after_append.p50.as_nanos() as f64 / 1e3;
    assert_eq!(json["measured"]["sync_after_append"]["p50_us"], p50_us);
}
