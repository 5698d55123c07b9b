//! Whole measurements of real folders, and what cannot be measured.

use super::*;

/// Findings on an ordinary disk.
pub fn findings() -> Findings {
    let latency =
        Latency { count: 100, p50_us: 100.0, p99_us: 150.0, max_us: 300.0, mean_us: 105.0 };
    let throughput = Throughput {
        write_bytes: 4096,
        count: 1000,
        elapsed: Duration::from_millis(100),
        per_second: 10_000.0,
        bytes_per_second: 40_960_000.0,
    };
    Findings {
        path: "app.db".into(),
        folder: "/data".into(),
        file_system: FileSystem {
            kind: "ext4".to_owned(),
            nature: Nature::Local,
            mount_point: Some("/data".into()),
            source: Some("/dev/nvme0n1p1".to_owned()),
            options: vec!["rw".to_owned(), "relatime".to_owned()],
            device: Some((259, 1)),
        },
        device: Some(Device {
            name: "nvme0n1".to_owned(),
            model: None,
            is_virtual: false,
            rotational: Some(false),
            write_cache: Some("write back".to_owned()),
            logical_block_bytes: Some(512),
            physical_block_bytes: Some(4096),
            atomic_write_unit_min_bytes: Some(0),
            atomic_write_unit_max_bytes: Some(0),
        }),
        free_bytes: Some(1 << 40),
        atomic_writes: AtomicWrites {
            by: AtomicBy::None,
            unit_min_bytes: Some(0),
            unit_max_bytes: Some(0),
        },
        sync_call: "fdatasync",
        syncs_are_disarmed: false,
        measured: Measured {
            sync_after_overwrite: latency,
            sync_after_append: latency,
            sync_of_folder: Some(latency),
            random_writes: throughput,
            sequential_writes: throughput,
        },
    }
}

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
        let report = measure(&path, &short()).unwrap();
        assert_eq!(report.found.path, path);
        assert_eq!(report.found.folder, folder.path().canonicalize().unwrap());
        assert!(!report.verdict.why.is_empty());
        assert!(report.elapsed > Duration::ZERO);
        if cfg!(unix) {
            assert!(report.found.free_bytes.is_some());
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
    let report = measure(&link, &short()).unwrap();
    assert_eq!(report.found.folder, there.path().canonicalize().unwrap());
}

#[test]
fn what_cannot_be_measured_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    for (path, expected) in [
        (folder.path().join("none/app.db"), "name a folder that is there"),
        (file.join("app.db"), "cannot look at"),
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
fn memory_is_known_and_fits_relaxed() {
    let shared_memory = Path::new("/dev/shm");
    if shared_memory.is_dir() {
        let folder = tempfile::tempdir_in(shared_memory).unwrap();
        let report = measure(folder.path(), &short()).unwrap();
        assert_eq!(report.found.file_system.nature, Nature::Memory);
        assert_eq!(report.verdict.profile, crate::Profile::Relaxed);
        assert_eq!(report.found.device, None);
    }
}

#[test]
fn a_library_that_eats_syncs_is_noticed() {
    assert!(!syncs_are_disarmed(None));
    assert!(!syncs_are_disarmed(Some(OsStr::new("/usr/lib/libjemalloc.so"))));
    assert!(syncs_are_disarmed(Some(OsStr::new("/usr/lib/libeatmydata.so:/x.so"))));
}

#[test]
fn the_report_is_an_object_with_names_for_everything() {
    let found = findings();
    let report =
        StorageReport { verdict: verdict::judge(&found), found, elapsed: Duration::from_secs(2) };
    let json = serde_json::to_value(report).unwrap();
    assert_eq!(json["file_system"]["nature"], "local");
    assert_eq!(json["atomic_writes"]["by"], "none");
    assert_eq!(json["verdict"]["profile"], "durable");
    assert_eq!(json["measured"]["sync_after_append"]["p50_us"], 100.0);
}
