//! The queue's command.

use super::{Found, assert_all};

const CASES: &[Found] = &[
    Found {
        finding: "B12 a claim that was never given",
        run: "leafpress queue push j.db m a && leafpress queue claim j.db m && \
              leafpress queue ack j.db 1.2",
        status: 3,
        says: &["no such claim: 1.2 was never given", "on disk: nothing of this call"],
        never_says: &["it is done"],
        ..Found::NONE
    },
    Found {
        finding: "B12 a job that never was, as JSON",
        run: "leafpress queue push j.db m a && leafpress queue ack --json j.db 99.1",
        status: 3,
        says: &["\"kind\":\"no_such_claim\"", "\"token\":\"99.1\""],
        never_says: &["settled"],
        ..Found::NONE
    },
    Found {
        finding: "B12 one of several, before any claim",
        run: "leafpress queue push j.db m a && leafpress queue ack --json j.db 1.1 7.1",
        status: 3,
        says: &["\"why\":\"no_such_claim\""],
        never_says: &["settled"],
        ..Found::NONE
    },
    // A library of that name need not be there: its name is what is looked at.
    Found {
        finding: "D9 a queue where syncs do nothing",
        run: "LD_PRELOAD=libeatmydata.so leafpress queue push j.db m a",
        says: &["note: ", "nothing here survives a power cut", "libeatmydata"],
        ..Found::NONE
    },
    Found {
        finding: "D9 storage where syncs do nothing",
        run: "LD_PRELOAD=libeatmydata.so leafpress storage --quick --json .",
        says: &["none about power cuts here", "libeatmydata is loaded"],
        never_says: &["what was acknowledged survives a power cut"],
        ..Found::NONE
    },
];

#[test]
fn they_are_mended() {
    assert_all(CASES);
}
