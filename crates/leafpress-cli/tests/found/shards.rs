//! Shards: files that are kept or removed, and a damaged `_CURRENT`.

use super::{Found, assert_all};

#[test]
fn findings() {
    assert_all(&[
        Found {
            finding: "shards are in a folder, and not at what SQLite takes for a URI",
            files: &[("a.csv", b"id\n1\n")],
            run: "leafpress shard a.csv --out file:x.db --parts 1; echo =$?; \
                  leafpress shard a.csv --out :memory: --parts 1",
            status: 2,
            says: &["./file:x.db", "=2\n", "./:memory:"],
            leaves_no: &["file:x.db", ":memory:"],
            ..Found::NONE
        },
        Found {
            finding: "the first part is part 0 in all messages",
            files: &[("a.csv", b"id,v\n1,a\n1,c\n"), ("b.csv", b"id,v\n1,a\n2,c\n")],
            run: "leafpress shard a.csv --out p --by rows --parts 1 --pk id; echo =$?; \
                  leafpress shard b.csv --out p --by rows --parts 1 --pk id -q; \
                  echo x >>$(ls p/runs/*/parts/*.db); leafpress shards verify p",
            status: 1,
            says: &["<rows of part 0>:2", "=3\n", "part 0: "],
            never_says: &["part 1"],
            ..Found::NONE
        },
        Found {
            finding: "each action has examples and its statuses in the help",
            run: "for a in list verify rollback gc; do leafpress shards $a --help >h; \
                  grep -q '^  leafpress shards '$a' people' h && grep -q '^Exit status: 0' h || echo no $a; \
                  done; leafpress man --help",
            says: &["Examples:\n  leafpress man"],
            never_says: &["no "],
            ..Found::NONE
        },
        Found {
            finding: "gc says how many files it keeps as too young",
            files: &[("a.csv", b"id\n1\n")],
            run: "leafpress shard a.csv -o p --parts 1 -q; : > $(ls -d p/runs/*/parts)/lost.db; \
                  leafpress shards gc p; leafpress shards gc p --json; \
                  leafpress shards gc p --older-than 0s",
            says: &[
                "removed 0 files, 0 B\nkept 1 file: changed too recently, or of a run that may go on (--older-than)\n",
                "\"too_young\":1",
                "removed 1 file, 0 B\n  runs/",
            ],
            ..Found::NONE
        },
        Found {
            finding: "gc says how many files of a run that may go on it keeps",
            files: &[("a.csv", b"id\n1\n")],
            run: "mkdir -p p/runs/20260101T000000000Z-1f/parts; cd p/runs/*/parts; \
                  touch -d 2020-01-01 1.db 2.db; touch 3.db; cd ../../../..; leafpress shards gc p",
            says: &["removed 0 files, 0 B\nkept 3 files: "],
            ..Found::NONE
        },
        Found {
            finding: "a run whose files gc removes says so",
            run: "(printf 'id\\n1\\n'; until test -e gone; do sleep 0.02; done) | \
                  leafpress shard - -o p --parts 1 --table t & \
                  until ls -d p/runs/*/parts; do sleep 0.02; done >/dev/null 2>&1; \
                  leafpress shards gc p --older-than 0s; touch gone; wait $!",
            status: 3,
            says: &[
                " in p were removed while it was made\n",
                "on disk: nothing of this run is left\n",
                "leafpress shards gc does so with a short --older-than\n",
            ],
            ..Found::NONE
        },
        Found {
            finding: "a damaged _CURRENT hides no run",
            files: &[("a.csv", b"id\n1\n")],
            run: "leafpress shard a.csv -o p --parts 1 -q; echo '{' > p/_CURRENT; \
                  leafpress shards list p; echo $?; leafpress shards list p --json; \
                  leafpress shards rollback p; leafpress shard a.csv -o p --parts 1; \
                  leafpress shards rollback p --to $(ls p/runs) && leafpress shards list p",
            says: &[
                "  1 part  1 row, ",
                "no run is current: p/_CURRENT: it names no run: ",
                "; name the run that is to be current to leafpress shards rollback; ",
                "\n1\n",
                "\"problem\":\"p/_CURRENT: ",
                "to do: name the run that is to be current",
                "now current: ",
                "\n* ",
            ],
            ..Found::NONE
        },
    ]);
}

#[test]
fn of_other_users() {
    assert_all(&[
        Found {
            finding: "a run folder that may not be entered stops neither list nor gc",
            files: &[("a.csv", b"id\n1\n")],
            as_other_user: true,
            run: "leafpress shard a.csv -o p --parts 1 -q; for n in 1 2 3; do mkdir -p p/runs/$n/parts; \
                  echo x > p/runs/$n/parts/x.db; done; chmod 0 p/runs/2; leafpress shards list p; echo list $?; \
                  leafpress shards gc p --older-than 0s; echo gc $?; chmod 700 p/runs/2; \
                  ls p/runs; leafpress shards verify p",
            says: &[
                "  2  cannot be read: cannot look for p/runs/2/manifest.json: Permission denied",
                "list 1\nremoved 2 files, ",
                "\nleft alone, as they cannot be read or removed:\n  cannot look for p/runs/2/",
                "gc 1\n2\n",
                "sound: 1 part",
            ],
            ..Found::NONE
        },
        Found {
            finding: "a current run that may not be entered is kept, and told once",
            files: &[("a.csv", b"id\n1\n")],
            as_other_user: true,
            run: "leafpress shard a.csv -o p --parts 1 -q; chmod 0 p/runs/*; \
                  leafpress shards gc p --older-than 0s --json; echo gc $?; \
                  leafpress shards list p; chmod 700 p/runs/*; leafpress shards verify p",
            says: &["\"problems\":[\"cannot look", "denied (os error 13)\"]", "gc 1\n* ", "sound"],
            ..Found::NONE
        },
        Found {
            finding: "gc goes on after a file that it may not remove, and tells all",
            files: &[("a.csv", b"id\n1\n")],
            as_other_user: true,
            run: "leafpress shard a.csv -o p --parts 1 -q; for n in 1 2 3; do mkdir -p p/runs/$n/parts; \
                  echo x > p/runs/$n/parts/x.db; done; chmod 500 p/runs/2/parts; leafpress shards gc p --older-than 0s; \
                  echo gc $?; chmod 700 p/runs/2/parts; ls p/runs",
            says: &[
                "removed 2 files, 4 B\n  runs/1/parts/x.db\n  runs/3/parts/x.db\n",
                "\n  cannot remove p/runs/2/parts/x.db: Permission denied",
                "gc 1\n2\n",
            ],
            never_says: &["nothing was changed"],
            ..Found::NONE
        },
        Found {
            finding: "a user who may not publish is told at once",
            files: &[("a.csv", b"id\n1\n")],
            as_other_user: true,
            run: "umask 002; leafpress shard a.csv -o p --parts 1 -q; ls -l p/_LOCK; \
                  chmod 444 p/_LOCK; leafpress shard none.csv -o p --parts 1; echo $?; \
                  ls p/runs | wc -l",
            says: &[
                "-rw-rw-r--",
                "cannot lock p/_LOCK: Permission denied",
                "to do: only users who may write to that file publish here: ",
                "(chmod g+w p/_LOCK)\n",
                "\n3\n1\n",
            ],
            never_says: &["none.csv", "is complete"],
            ..Found::NONE
        },
        Found {
            finding: "readers of _CURRENT can read the next one, whatever the umask of its writer",
            files: &[("a.csv", b"id\n1\n")],
            run: "for m in 644 640 600; do umask 077; leafpress shard a.csv -o p --parts 1 -q; \
                  chmod $m p/_CURRENT; umask 007; leafpress shard a.csv -o p --parts 1 -q; \
                  ls -l p/_CURRENT; done",
            says: &["-rw-r--r--", "-rw-r-----", "-rw-------"],
            ..Found::NONE
        },
        Found {
            finding: "what root makes in the shards of another user is that user's, and no one else's",
            files: &[("a.csv", b"id\n1\n")],
            run: "umask 077; mkdir p; test $(id -u) -ne 0 || chown 65534:65534 p; \
                  leafpress shard a.csv -o p --parts 2 -q; leafpress shard a.csv -o p --parts 1 -q; \
                  find p -user 0; echo; find p -perm -040; find p -perm -004; find p -type f | wc -l",
            says: &["\n9\n"],
            never_says: &["p/"],
            ..Found::NONE
        },
    ]);
}
