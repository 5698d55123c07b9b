//! A process writes nonsense into the page that the members share.
//!
//! Must never: cut the file, which ends each process that looks at it.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::time::Duration;

use leafpress_testing::crash::Random;

use crate::judge::{Judge, Verdict};
use crate::members::{HANG, Members};

const PROCESSES: usize = 4;
const MUTATIONS: u32 = 10_000;
const PAGE_BYTES: usize = 4_096;
/// Mutations between two looks at what the members say.
const AT_ONCE: u32 = 10;

pub fn a_process_writes_nonsense_into_the_page() {
    let folder = tempfile::tempdir().unwrap();
    let judge = Judge::new(folder.path());
    let mut members = Members::new(&judge.path);
    members.start_up_to(PROCESSES);
    let page = File::options().write(true).open(folder.path().join("a.db-shared")).unwrap();
    let mut random = Random::new(20);
    for mutation in 0..MUTATIONS {
        // A number as a whole, or some bytes at any place.
        let (any, slot) = (random.number(), random.number() % 130);
        let (place, bytes) = if random.percent(50) {
            let number = random.choose(&[0, 1, 5, slot, u64::MAX - slot, any]);
            (8 * random.below(PAGE_BYTES / 8), number.to_ne_bytes().to_vec())
        } else {
            let byte = random.choose(&[0, 0xFF, any as u8]);
            let length = 1 + random.below(16);
            (random.below(PAGE_BYTES - length), vec![byte; length])
        };
        page.write_all_at(&bytes, place as u64).unwrap();
        if mutation % AT_ONCE == 0 {
            members.listen(Duration::from_millis(5));
        }
    }
    let answered = members.acknowledged.len();
    assert!(members.answered_all_but(None, HANG), "a process has no answer");
    members.end();
    assert_eq!(judge.look_again(&members.acknowledged), Verdict::default());
    println!("{MUTATIONS} mutations of the page: {answered} rows meanwhile, all there, once");
    members.say_numbers();
}
