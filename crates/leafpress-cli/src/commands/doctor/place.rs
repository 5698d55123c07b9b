//! Checks of the file system and the disk under a database.
//!
//! Must never: measure, which writes; `leafpress storage` does that.

use leafpress::storage::Nature;

use super::evidence::{Evidence, quoted};
use crate::summary::finding::{Check, Finding};

/// Check 25.
pub fn file_system(evidence: &Evidence) -> Finding {
    let check = Check(25, "file system");
    let Some(place) = &evidence.now.file_system else {
        return check.unknown("the system does not name it");
    };
    let warnings = place.warnings();
    if warnings.is_empty() {
        return check.ok(format!("{place}"));
    }
    let path = quoted(&evidence.named);
    let mend = match place.nature {
        Nature::Memory => {
            format!("sqlite3 {path} \"VACUUM INTO '/a/folder/on/a/disk/copy.db'\"; use that one")
        }
        Nature::Overlay => "put the database on a volume of the container".to_owned(),
        Nature::Network | Nature::SharedByHost => {
            "put the database on a disk of this machine; else use the profile rollback".to_owned()
        }
        _ => "mount it without that option, or put the database elsewhere; leafpress storage \
             measures a place"
            .to_owned(),
    };
    check.care(format!("{place}"), warnings.join("; "), mend)
}

/// Check 26.
pub fn disk(evidence: &Evidence) -> Finding {
    let check = Check(26, "disk and its write cache");
    let Some(device) = &evidence.device else {
        return check.unknown("the system names no disk under it");
    };
    let kind = match (device.is_virtual, device.rotational) {
        (true, _) => "virtual",
        (false, Some(true)) => "platters",
        (false, Some(false)) => "flash",
        (false, None) => "of unknown kind",
    };
    let cache = match device.write_cache.as_deref() {
        Some("write back") => "it keeps writes in a cache, which a sync empties",
        Some(_) => "it says that it keeps no writes in a cache, or that the cache outlives a cut",
        None => "it does not say whether it has a write cache",
    };
    check.ok(format!(
        "{} ({kind}): {cache}; leafpress storage measures what a sync takes",
        device.name
    ))
}
