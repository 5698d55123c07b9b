//! Images of a folder: the files that a power cut may leave.
//!
//! | | survives |
//! |---|---|
//! | a file's content at its last sync | always |
//! | writes and truncates since | any subset, applied in order |
//! | a surviving write | whole, or any of its sectors of 512 or 4,096 bytes |
//! | a surviving write that the disk made whole ([`Event::WriteWhole`]) | whole |
//! | the file's size | as the survivors make it, or as all would have (zeros) |
//! | names made, changed and deleted since the folder's last sync | a prefix |
//!
//! Bytes beside a torn write stay as they were: disks that damage them break
//! what SQLite is told by `SQLITE_IOCAP_POWERSAFE_OVERWRITE`, its default.
//!
//! Faults hide in extremes more than in the middle, so the choices lean to
//! all, none, all but one, one alone, and whole files ahead of others.
//! An image follows from the point and the numbers of its [`Random`] alone.

use std::fmt;
use std::sync::Arc;

use super::disk::{Contents, Disk, apply, write_at};
use super::log::{Event, Snapshot};
use super::random::Random;

/// The files of a folder after a crash. Buffers are used again.
#[derive(Debug, Default)]
pub struct Image {
    /// Names and contents; only the first `count` are meant.
    files: Vec<(Arc<str>, Vec<u8>)>,
    count: usize,
    choice: Option<Choice>,
}

/// Unsynced writes and truncates that survive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Keep {
    All,
    None,
    AllBut(usize),
    Only(usize),
    /// All, and one of them torn.
    Tear(usize),
    /// The first few of each file.
    Prefixes,
    /// All or none of each file.
    WholeFiles,
    Percent(u32),
}

/// Parameters of an image, so that a failure can be understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Choice {
    keep: Keep,
    torn_percent: u32,
    sector_bytes: usize,
    keeps_size: bool,
    names: usize,
}

impl fmt::Display for Choice {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { keep, torn_percent, sector_bytes, keeps_size, names } = self;
        write!(
            formatter,
            "survivors {keep:?}, {torn_percent} % of them torn at {sector_bytes} bytes, sizes {}, \
             {names} changes of names kept",
            if *keeps_size { "kept" } else { "as written" }
        )
    }
}

impl Choice {
    const KILLED: Self = Self {
        keep: Keep::All,
        torn_percent: 0,
        sector_bytes: 512,
        keeps_size: false,
        names: usize::MAX,
    };

    fn draw(disk: &Disk<'_>, random: &mut Random) -> Self {
        let names_unsynced = disk.names_unsynced();
        let names = match random.below(4) {
            0 | 1 => names_unsynced,
            2 => 0,
            _ => random.below(names_unsynced + 1),
        };
        let unsynced: usize =
            disk.names_after(names).values().map(|&file| disk.contents(file).pending.len()).sum();
        let keep = match random.below(10) {
            0 => Keep::All,
            1 => Keep::None,
            2 | 3 => Keep::AllBut(random.below(unsynced)),
            4 => Keep::Only(random.below(unsynced)),
            5 => Keep::Tear(random.below(unsynced)),
            6 => Keep::Prefixes,
            7 => Keep::WholeFiles,
            _ => Keep::Percent(random.choose(&[10, 30, 50, 70, 90])),
        };
        Self {
            keep,
            torn_percent: random.choose(&[0, 0, 20, 100]),
            sector_bytes: random.choose(&[512, 512, 4096]),
            keeps_size: random.percent(25),
            names,
        }
    }
}

impl Image {
    /// An image without files.
    pub fn new() -> Self {
        Self::default()
    }

    /// The image after the process was killed: the system writes everything.
    pub fn kill(&mut self, disk: &Disk<'_>) {
        self.make(disk, Choice::KILLED, &mut Random::new(0));
    }

    /// An image after a power cut.
    pub fn cut_power(&mut self, disk: &Disk<'_>, random: &mut Random) {
        let choice = Choice::draw(disk, random);
        self.make(disk, choice, random);
    }

    fn make(&mut self, disk: &Disk<'_>, choice: Choice, random: &mut Random) {
        self.choice = Some(choice);
        self.count = 0;
        let mut writes_before = 0;
        for (name, file) in disk.names_after(choice.names.min(disk.names_unsynced())) {
            let contents = disk.contents(file);
            if self.count == self.files.len() {
                self.files.push((Arc::clone(&name), Vec::new()));
            }
            let (image_name, content) = &mut self.files[self.count];
            *image_name = name;
            survive(content, disk, contents, choice, writes_before, random);
            writes_before += contents.pending.len();
            self.count += 1;
        }
    }

    /// Names and contents.
    pub fn files(&self) -> impl Iterator<Item = (&Arc<str>, &Vec<u8>)> {
        self.files[..self.count].iter().map(|(name, content)| (name, content))
    }

    /// The files, for the caller to change.
    pub(super) fn files_mut(&mut self) -> &mut [(Arc<str>, Vec<u8>)] {
        &mut self.files[..self.count]
    }

    /// Describes how this image was made.
    pub fn describe(&self) -> String {
        self.choice.map_or_else(|| "nothing survives".to_owned(), |choice| choice.to_string())
    }

    /// A number that other images hardly have.
    pub fn fingerprint(&self) -> u64 {
        use std::hash::{DefaultHasher, Hash as _, Hasher as _};
        let mut hasher = DefaultHasher::new();
        for (name, content) in self.files() {
            name.hash(&mut hasher);
            content.hash(&mut hasher);
        }
        hasher.finish()
    }

    /// A copy of the files.
    pub fn snapshot(&self) -> Snapshot {
        let files = self.files().map(|(name, content)| (name.to_string(), content.clone()));
        Snapshot { files: files.collect() }
    }
}

/// One file's content after the crash.
fn survive(
    content: &mut Vec<u8>,
    disk: &Disk<'_>,
    contents: &Contents,
    choice: Choice,
    writes_before: usize,
    random: &mut Random,
) {
    content.clear();
    content.extend_from_slice(&contents.durable);
    let pending = &contents.pending;
    let file_part = match choice.keep {
        Keep::Prefixes => random.below(pending.len() + 1),
        Keep::WholeFiles if random.percent(50) => pending.len(),
        _ => 0,
    };
    let mut size = content.len();
    for (position, &index) in pending.iter().enumerate() {
        let (number, event) = (writes_before + position, disk.event(index));
        size = match event {
            Event::Write { offset, bytes, .. } | Event::WriteWhole { offset, bytes, .. } => {
                size.max(*offset as usize + bytes.len())
            }
            Event::Truncate { size, .. } => *size as usize,
            _ => size,
        };
        let survives = match choice.keep {
            Keep::All | Keep::Tear(_) => true,
            Keep::None => false,
            Keep::AllBut(lost) => number != lost,
            Keep::Only(kept) => number == kept,
            Keep::Prefixes | Keep::WholeFiles => position < file_part,
            Keep::Percent(percent) => random.percent(percent),
        };
        let is_torn = match choice.keep {
            Keep::All | Keep::AllBut(_) => false,
            Keep::Tear(torn) => number == torn,
            _ => random.percent(choice.torn_percent),
        };
        match event {
            _ if !survives => {}
            Event::Write { offset, bytes, .. } if is_torn => {
                tear(content, *offset as usize, bytes, choice.sector_bytes, random);
            }
            _ => apply(content, event),
        }
    }
    if choice.keeps_size && content.len() < size {
        content.resize(size, 0);
    }
}

/// Writes some of the sectors that `bytes` lie in.
fn tear(
    content: &mut Vec<u8>,
    offset: usize,
    bytes: &[u8],
    sector_bytes: usize,
    random: &mut Random,
) {
    let (mut start, end) = (offset, offset + bytes.len());
    let percent = random.choose(&[25, 50, 75]);
    while start < end {
        let next = ((start / sector_bytes + 1) * sector_bytes).min(end);
        if random.percent(percent) {
            write_at(content, start, &bytes[start - offset..next - offset]);
        }
        start = next;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::log::{Log, Recording};
    use super::*;

    /// A synced file of ones; then twos over sectors 1 and 2, threes as sector
    /// 4, another file, and nothing of it synced.
    fn recording() -> Recording {
        let log = Log::new(Snapshot { files: vec![("a".to_owned(), vec![0; 512])] });
        let file = log.file("a").unwrap();
        log.wrote(file, 0, &[1; 1536]);
        let covers = log.position();
        log.wrote(file, 512, &[2; 1024]);
        log.synced_file(file, covers);
        log.wrote(file, 2048, &[3; 512]);
        log.lock().created("b");
        log.finish()
    }

    fn images(recording: &Recording, count: u64) -> BTreeSet<Vec<(String, Vec<u8>)>> {
        let disk = Disk::at(recording, usize::MAX);
        let mut image = Image::new();
        let made = (0..count).map(|number| {
            image.cut_power(&disk, &mut Random::of(&[7, number]));
            image.files().map(|(name, content)| (name.to_string(), content.clone())).collect()
        });
        made.collect()
    }

    #[test]
    fn synced_bytes_stay_and_all_others_are_a_choice() {
        let images = images(&recording(), 20_000);
        for files in &images {
            let content = &files[0].1;
            assert_eq!(content[..512], [1; 512], "the first sector was synced");
            assert!([1536, 2560].contains(&content.len()), "{}", content.len());
            for sector in content.chunks(512) {
                assert!(sector.iter().all(|byte| *byte == sector[0]), "torn inside of a sector");
            }
        }
        // Sectors 1 and 2 as they were or new, the end lost, zeros or threes, b or none.
        assert_eq!(images.len(), 2 * 2 * 3 * 2);
    }

    #[test]
    fn a_whole_write_is_there_whole_or_not_at_all() {
        let log = Log::new(Snapshot { files: vec![("a".to_owned(), vec![1; 2048])] });
        let file = log.file("a").unwrap();
        log.wrote_whole(file, 0, &[2; 1024]);
        log.wrote_whole(file, 1024, &[3; 1024]);
        let images = images(&log.finish(), 1000);
        let pages: BTreeSet<_> = images
            .iter()
            .map(|files| {
                let (first, second) = files[0].1.split_at(1024);
                assert!(first == [first[0]; 1024] && second == [second[0]; 1024], "torn");
                [first[0], second[0]]
            })
            .collect();
        assert_eq!(pages, BTreeSet::from([[1, 1], [1, 3], [2, 1], [2, 3]]));
    }

    #[test]
    fn a_killed_process_loses_nothing() {
        let recording = recording();
        let mut image = Image::new();
        image.kill(&Disk::at(&recording, usize::MAX));
        let (names, contents): (Vec<_>, Vec<_>) = image.files().unzip();
        assert_eq!(names.iter().map(|name| &***name).collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!([contents[0][512], contents[0][1600], contents[0][2048]], [2, 0, 3]);
    }

    #[test]
    fn a_deleted_file_comes_back_unless_the_folder_was_synced() {
        for synced in [false, true] {
            let log = Log::new(Snapshot { files: vec![("a".to_owned(), vec![9])] });
            log.lock().deleted("a");
            log.lock().created("a");
            if synced {
                log.synced_folder(log.position());
            }
            let images = images(&log.finish(), 100);
            let contents: Vec<_> = images
                .iter()
                .map(|files| files.first().map(|(_, content)| content.len()))
                .collect();
            let expected: &[_] = if synced { &[Some(0)] } else { &[None, Some(0), Some(1)] };
            assert_eq!(contents, expected);
        }
    }
}
