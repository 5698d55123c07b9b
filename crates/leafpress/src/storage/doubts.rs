//! Doubts about a file system: what the system tells of it that may break a promise.
//!
//! Stands beside [`super::measure`], and under the profiles. A pure function of what was found.
//!
//! Must never: hide a doubt, or advise a profile.

use super::file_system::{FileSystem, Nature};

/// Reasons for which a sync there saves nothing from a power cut, as far as the system tells; a
/// sentence each, without a full stop. Empty if it tells nothing of the kind.
pub(super) fn not_durable(file_system: &FileSystem, syncs_are_disarmed: bool) -> Vec<String> {
    let mut why = Vec::new();
    if file_system.nature == Nature::Memory {
        why.push(format!("{} is memory, which is empty after it", file_system.kind));
    }
    for option in NO_SYNC_OPTIONS {
        if file_system.options.iter().any(|it| it == option) {
            why.push(format!(
                "the file system is mounted with {option}, so that syncs do not reach the disk"
            ));
        }
    }
    if syncs_are_disarmed {
        why.push("libeatmydata is loaded, which makes every sync do nothing".to_owned());
    }
    why
}

/// Options under which what was synced may be gone after a power cut.
const NO_SYNC_OPTIONS: [&str; 3] = ["nobarrier", "barrier=0", "volatile"];

impl FileSystem {
    /// Facts of the file system that may break a promise, or damage a database; one sentence each.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = self.about_options();
        warnings.extend(self.about_nature());
        warnings
    }

    /// Options under which a sync is no sync, or a lock no lock.
    fn about_options(&self) -> Vec<String> {
        let has = |name: &str| self.options.iter().any(|option| option == name);
        let mut warnings = Vec::new();
        for option in ["nobarrier", "barrier=0"] {
            if has(option) {
                warnings.push(format!(
                    "it is mounted with {option}: a sync does not empty the disk's own cache, and a \
                     power cut may take what was acknowledged and damage the database"
                ));
            }
        }
        if has("volatile") {
            warnings.push(
                "it is mounted with volatile: a sync does nothing here, and a crash of the machine \
                 may damage the database"
                    .to_owned(),
            );
        }
        if has("nolock") || has("local_lock=all") || has("local_lock=posix") {
            warnings.push(
                "its locks are not seen by other machines: let programs of one machine alone use \
                 the database, or it will be damaged"
                    .to_owned(),
            );
        }
        if has("soft") || has("softerr") {
            warnings.push(
                "it is mounted with soft: a server that is slow makes a write fail, and whether a \
                 commit happened is then unknown"
                    .to_owned(),
            );
        }
        warnings
    }

    fn about_nature(&self) -> Vec<String> {
        let kind = &self.kind;
        let warning = match self.nature {
            Nature::Network | Nature::SharedByHost => format!(
                "every promise rests on the locks and syncs of {kind}, which only its server can \
                 keep; a disk of this machine is safer"
            ),
            Nature::Memory => "do not keep here what must survive a restart".to_owned(),
            Nature::Overlay => format!(
                "{kind} is often a container's own layer, which goes when the container goes: put the \
                 database on a volume"
            ),
            Nature::Unknown if kind.starts_with("fuse") => format!(
                "{kind} is a program: whether a sync reaches a disk, and whether its locks and shared \
                 memory work, is up to it; if its files are on another machine, choose rollback"
            ),
            Nature::Local if ["vfat", "msdos", "exfat"].contains(&kind.as_str()) => format!(
                "{kind} keeps no journal: a power cut can damage the file system itself, which no \
                 profile can prevent"
            ),
            Nature::Unknown | Nature::Local => return Vec::new(),
        };
        vec![warning]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn local(kind: &str, options: &[&str]) -> FileSystem {
        FileSystem {
            kind: kind.to_owned(),
            nature: Nature::Local,
            mount_point: None,
            source: None,
            options: options.iter().map(|&option| option.to_owned()).collect(),
            device: None,
        }
    }

    #[test]
    fn options_that_disarm_syncs_or_locks_are_named() {
        assert_eq!(local("ext4", &["rw", "relatime"]).warnings(), Vec::<String>::new());
        for (option, expected) in [
            ("nobarrier", "mounted with nobarrier"),
            ("barrier=0", "mounted with barrier=0"),
            ("volatile", "a sync does nothing"),
            ("nolock", "not seen by other machines"),
            ("local_lock=all", "not seen by other machines"),
            ("soft", "unknown"),
        ] {
            let all = local("ext4", &["rw", option]).warnings().join("\n");
            assert!(all.contains(expected), "{option}: {all}");
        }
        assert!(local("exfat", &[]).warnings()[0].contains("keeps no journal"));
        let program = FileSystem { nature: Nature::Unknown, ..local("fuse.mine", &[]) };
        assert!(program.warnings()[0].contains("is a program"), "{:?}", program.warnings());
    }

    #[test]
    fn a_sync_that_saves_nothing_is_named() {
        assert_eq!(not_durable(&local("ext4", &["rw"]), false), Vec::<String>::new());
        let memory = FileSystem { nature: Nature::Memory, ..local("tmpfs", &["volatile"]) };
        let why = not_durable(&memory, true);
        assert_eq!(why.len(), 3, "{why:?}");
        assert!(why[0].contains("tmpfs is memory") && why[2].contains("libeatmydata"), "{why:?}");
    }
}
