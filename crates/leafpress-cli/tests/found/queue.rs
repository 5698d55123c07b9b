//! The queue's command.

use super::{Found, assert_all};

/// The table that `leafpress_job` must not be mixed up with.
const FOREIGN: &str = "CREATE TABLE leafpress_job(mine); INSERT INTO leafpress_job VALUES ('kept')";

/// Jobs that wait, and runs of a worker.
const WORK: &[Found] = &[
    Found {
        finding: "of jobs to be purged those are named that need a yes, and dead ones need none",
        run: "leafpress queue push j.db m a b >ids; \
              leafpress queue work j.db m --until-empty --quiet --exec sh -c 'exit 65'; \
              leafpress queue push j.db m c >ids; \
              leafpress queue purge j.db m --state dead,ready; echo =$?; \
              leafpress queue purge j.db m --state dead; leafpress queue purge --help",
        says: &[
            " ready: these jobs are not done yet",
            "=2\nremoved 2 jobs\n",
            "Ask no question about jobs that are neither done nor dead",
        ],
        never_says: &["dead, ready"],
        ..Found::NONE
    },
    Found {
        finding: "a result that is too long is no failure of its job, and help says so",
        run: "leafpress queue settings j.db m --keep-done 1h >s; leafpress queue push j.db m a >ids; \
              leafpress queue work j.db m --until-empty --keep-output \
              --shell 'head -c 1048577 /dev/zero'; echo =$?; leafpress queue work --help",
        says: &[
            "its output was not kept",
            "1 done",
            "=0\n",
            "the job is done without a result, and a",
            "what is settled",
        ],
        never_says: &["more is an error", "come again"],
        ..Found::NONE
    },
    Found {
        finding: "a paused queue is no empty one",
        run: "exec 2>&1; leafpress queue push j.db m a b >ids; leafpress queue pause j.db m; \
              leafpress queue claim j.db m; echo claim $?; \
              leafpress queue work j.db m --until-empty --exec true; echo work $?; \
              leafpress queue work j.db m --until-empty --json --exec true; echo json $?",
        says: &[
            "paused: 2 jobs wait\nclaim 1",
            "paused: 2 jobs wait\nwork 1",
            "\"jobs\":0,\"waiting\":{\"jobs\":2,\"why\":\"paused\"}}\njson 1",
        ],
        never_says: &["no jobs"],
        ..Found::NONE
    },
    Found {
        finding: "a queue at its limit is no empty one",
        run: "exec 2>&1; leafpress queue push j.db m a b >ids; \
              leafpress queue settings j.db m --concurrency 1; \
              leafpress queue claim j.db m >token; \
              leafpress queue claim j.db m; echo claim $?; \
              leafpress queue work j.db m --until-empty --exec true; echo work $?; \
              leafpress queue push j.db g a b --group x >ids; leafpress queue claim j.db g >token; \
              leafpress queue work j.db g --until-empty --exec true; echo group $?",
        says: &[
            "at the limit of --concurrency: 1 job waits\nclaim 1",
            "at the limit of --concurrency: 1 job waits\nwork 1",
            "at the limit of --group-concurrency: 1 job waits\ngroup 1",
        ],
        ..Found::NONE
    },
    Found {
        finding: "a queue whose jobs are all claimed or not due is empty",
        run: "leafpress queue push j.db m a >ids; leafpress queue push j.db m b --delay 1h >ids; \
              leafpress queue claim j.db m >token; leafpress queue claim j.db m; echo claim $?; \
              leafpress queue work j.db m --until-empty --exec true; echo work $?",
        says: &["claim 1", "no jobs in", "work 0"],
        never_says: &["wait"],
        ..Found::NONE
    },
    Found {
        finding: "programs that end well are seen to where SIGCHLD is ignored",
        run: "leafpress queue push j.db m a >ids; (trap '' CHLD; \
              exec leafpress queue work j.db m --max-jobs 1 --exec true); echo work $?",
        says: &["1 done", "work 0"],
        ..Found::NONE
    },
    Found {
        finding: "flags behind --exec are the program's",
        run: "leafpress queue push j.db m a >ids; leafpress queue push j.db m b --attempts 1 >ids; \
              leafpress queue settings j.db m --backoff 0s; \
              timeout 20 leafpress queue work j.db m --max-jobs 1 --exec cat --until-empty; \
              leafpress queue work j.db m --until-empty --exec echo --quiet --verbose",
        says: &[
            "warning: --until-empty behind --exec: an argument of the program; flags of the worker \
             come before --exec",
            "--quiet --verbose",
        ],
        never_says: &["--quiet behind"],
        ..Found::NONE
    },
    Found {
        finding: "runs and jobs are counted apart",
        run: "leafpress queue push j.db m a b c d >ids; \
              leafpress queue settings j.db m --backoff 0s --attempts 4; \
              leafpress queue work j.db m --until-empty --exec false; echo status $?",
        says: &["16 runs of 4 jobs in ", ": 0 done, 4 dead\n", "status 1"],
        ..Found::NONE
    },
    Found {
        finding: "a job that is done in the end is done",
        run: "leafpress queue push j.db m a >ids; leafpress queue settings j.db m --backoff 0s; \
              leafpress queue work j.db m --until-empty --shell 'test $LEAFPRESS_JOB_ATTEMPT = 3'",
        says: &["3 runs of 1 job in ", ": 1 done\n"],
        ..Found::NONE
    },
];

/// The looks and the tools of an operator.
const OPERATED: &[Found] = &[
    Found {
        finding: "a look changes no journal mode, as it takes no profile",
        run: "leafpress queue push j.db m a >ids; \
              for look in 'list j.db m' 'show j.db 1' 'stats j.db' 'schedule list j.db'; do \
              leafpress queue $look >shown || echo failed; \
              leafpress queue $look --profile rollback 2>>refused; echo =$?; done",
        says: &["=2\n=2\n=2\n=2\n"],
        never_says: &["failed", "=0"],
        holds: &[("j.db", "PRAGMA journal_mode", "'wal'")],
        ..Found::NONE
    },
    Found {
        finding: "settings that are only shown make no database, and no queue",
        run: "leafpress queue settings typo.db m; echo =$?; ls; \
              leafpress queue push j.db m a >ids; leafpress queue settings j.db n; echo =$?; \
              leafpress queue settings j.db n --lease 1m | head -c 1; leafpress queue settings j.db m",
        says: &["typo.db", "=3\n", "there is no queue 'n'", "--attempts"],
        leaves_no: &["typo.db"],
        holds: &[("j.db", "SELECT name FROM leafpress_queue", "'m';'n'")],
        ..Found::NONE
    },
    Found {
        finding: "settings as JSON have the names that Python's configure takes",
        run: "leafpress queue settings j.db m --rate 5/m --json; \
              leafpress queue push j.db m a --unique k >ids; leafpress queue show j.db 1 --json",
        says: &[
            r#"{"queue":"m","lease":30.0,"attempts_max":5,"backoff_first":1.0,"backoff_factor":2.0"#,
            r#""rate":[5,60.0],"group_rate":null}"#,
            r#""unique":"k","unique_for":"running""#,
        ],
        ..Found::NONE
    },
    Found {
        finding: "claim and work name their worker by the same flag",
        run: "leafpress queue settings j.db m --keep-done 1h >s; leafpress queue push j.db m a b >ids; \
              leafpress queue work j.db m --until-empty --max-jobs 1 -q --worker ann --exec true; \
              leafpress queue work j.db m --until-empty --max-jobs 1 -q --name bob --exec true; \
              leafpress queue work --help | grep -c -e --name",
        status: 1,
        says: &["0\n"],
        holds: &[("j.db", "SELECT worker FROM leafpress_job ORDER BY id", "'ann';'bob'")],
        ..Found::NONE
    },
    Found {
        finding: "a dead job that is retried while another one holds its key",
        run: "exec 2>&1; leafpress queue push j.db m a b --attempts 1 >ids; \
              leafpress queue push j.db m c --unique k >ids; \
              leafpress queue claim j.db m --count 3 >tokens; \
              leafpress queue fail j.db 1.1 --reason no; \
              leafpress queue fail j.db 3.1 --reason no; leafpress queue push j.db m d --unique k; \
              leafpress queue retry j.db m --all-dead; echo status $?; \
              leafpress queue claim j.db m --count 2 >tokens; \
              leafpress queue fail j.db 3.2 --reason no; \
              leafpress queue retry j.db 3",
        says: &[
            "note: 1 job goes without a unique key: another job holds it by now, and both may run \
             at a time\n2 jobs are tried again\nstatus 0\n",
            "note: 1 job goes without a unique key: another job holds it by now, and both may run \
             at a time\nretried 3\n",
        ],
        ..Found::NONE
    },
    Found {
        finding: "a dead job that is retried has its key again",
        run: "exec 2>&1; leafpress queue push j.db m a --unique k >ids; \
              leafpress queue claim j.db m >tokens; leafpress queue fail j.db 1.1 --reason no; \
              leafpress queue retry j.db m --all-dead; leafpress queue push j.db m b --unique k",
        says: &["1 job is tried again\n1\n"],
        never_says: &["note"],
        ..Found::NONE
    },
    Found {
        finding: "an error does not list thousands of queues",
        run: "for n in $(seq -w 30); do leafpress queue push j.db q$n a >ids; done; \
              leafpress queue claim j.db other; echo status $?; \
              leafpress queue stats j.db other",
        says: &["it has q01, q02, ", "q20 and 10 more; pushing", "status 3"],
        never_says: &["q21"],
        status: 3,
        ..Found::NONE
    },
    Found {
        finding: "the history of a job that failed a thousand times",
        run: "leafpress queue push j.db m a --attempts 25 >ids; \
              leafpress queue settings j.db m --backoff 0s; \
              leafpress queue work j.db m --until-empty --exec false >runs 2>&1; \
              leafpress queue show j.db 1; \
              leafpress queue show j.db 1 --json | tr , '\\n' | grep -c '\"claim\"'",
        says: &["5 attempts before: see --json\n", "\n25\n"],
        ..Found::NONE
    },
    Found {
        finding: "the names and the times of a worker's programs",
        run: "leafpress queue work --help; \
              leafpress queue work j.db m --timeout 0s --exec true; echo status $?",
        says: &[
            "LEAFPRESS_JOB_QUEUE",
            "LEAFPRESS_JOB_METADATA",
            "it would end each program at once; name a time such as 30s or 5m",
            "status 2",
        ],
        never_says: &["a lease of no time", " _QUEUE"],
        ..Found::NONE
    },
    Found {
        finding: "a program that cannot be started",
        files: &[("data", b"no program")],
        run: "leafpress queue push j.db m a >ids; leafpress queue work j.db m --exec ./data; \
              echo status $?",
        says: &["on disk: each job that was claimed for it is given back"],
        never_says: &["nothing was changed"],
        holds: &[("j.db", "SELECT state, attempts FROM leafpress_jobs", "'ready',0")],
        ..Found::NONE
    },
    Found {
        finding: "a schedule of years that are over",
        run: "leafpress queue schedule add j.db m new-year '0 0 0 1 1 * 2020' x",
        says: &[
            "\"0 0 0 1 1 * 2020\" never happens again: its last moment has passed",
            "to do: let its year be one to come, or leave the year out",
        ],
        leaves_no: &["j.db"],
        status: 2,
        ..Found::NONE
    },
];

/// Jobs that cannot be meant.
const PUSHES: &[Found] = &[
    Found {
        finding: "queue and database in the wrong order",
        run: "exec 2>&1; for a in 'push mail j.db x' 'settings mail j.db --lease 5s' \
              \"schedule add mail j.db n '0 0 * * *'\"; do eval \"leafpress queue $a\" || \
              echo status $?; done; leafpress queue push mail.x j.db x",
        says: &["error: there is no database mail, and j.db is no name of a queue\n\
             on disk: nothing was made\n\
             to do: the database comes first, then the queue: j.db mail\nstatus 2\nerror: there is"],
        leaves_no: &["mail", "j.db"],
        ..Found::NONE
    },
    Found {
        finding: "a job that can only expire",
        files: &[("jobs", b"{\"payload\":1,\"delay\":\"2h\"}\n")],
        run: "leafpress queue push j.db q a --expires 1h --delay 2h; echo status $?; \
              leafpress queue push j.db q a --expires 2020-01-01T00:00:00Z --delay 1s; \
              leafpress queue push j.db q a --expires 1h --due 2999-01-01T00:00:00Z; \
              leafpress queue push j.db q a --expires 2020-01-01T00:00:00Z; echo status $?; \
              leafpress queue push j.db q --ndjson jobs --expires 1h; echo status $?; \
              leafpress queue push k.db q a --expires 2h --delay 1h",
        says: &[
            "error: the job would expire before it is due, and never be claimed",
            "let --expires be a time to come, and one after --delay or --due",
            "status 2",
            "jobs:1:1: the job would expire before it is due",
            "status 3",
        ],
        holds: &[("k.db", "SELECT count(*) FROM leafpress_job", "1")],
        leaves_no: &["j.db"],
        ..Found::NONE
    },
];

const CASES: &[Found] = &[
    Found {
        finding: "B11",
        run: r#"leafpress queue push j.db '{"to":"ann"}' </dev/null"#,
        status: 2,
        says: &["<stdin>: it is empty", "no payload for the queue", "PAYLOAD is ''"],
        leaves_no: &["j.db"],
        ..Found::NONE
    },
    Found {
        finding: "B11 with --json",
        run: r"leafpress queue push j.db mail --json </dev/null",
        status: 2,
        says: &[r#""kind":"misuse""#],
        leaves_no: &["j.db"],
        ..Found::NONE
    },
    Found {
        finding: "B11, an empty payload that is meant",
        run: "leafpress queue push j.db mail ''",
        holds: &[("j.db", "SELECT queue, payload FROM leafpress_jobs", "'mail',x''")],
        ..Found::NONE
    },
    Found {
        finding: "B19",
        run: "leafpress queue push k.db q a && leafpress queue work k.db q --until-empty \
              --keep-output --exec echo hi",
        status: 2,
        says: &["keeps no done jobs", "no job was taken", "queue settings k.db q --keep-done 7d"],
        holds: &[("k.db", "SELECT state, attempts FROM leafpress_jobs", "'ready',0")],
        ..Found::NONE
    },
    Found {
        finding: "B19, kept",
        run: "leafpress queue push k.db q a && leafpress queue settings k.db q --keep-done 7d && \
              leafpress queue work k.db q --until-empty --keep-output --exec echo hi",
        says: &["1 done"],
        holds: &[("k.db", "SELECT CAST(result AS TEXT) FROM leafpress_jobs", "'hi\n'")],
        ..Found::NONE
    },
    Found {
        finding: "B19, its sibling ack --result",
        run: "leafpress queue push k.db q a >ids && leafpress queue claim k.db q >token && \
              leafpress queue ack k.db 1.1 --result sent",
        says: &["warning: the result is not kept", "--keep-done 7d"],
        ..Found::NONE
    },
    Found {
        finding: "B20",
        run: "leafpress queue push j.db q a --unique-for waiting",
        status: 2,
        says: &["add --unique KEY"],
        leaves_no: &["j.db"],
        ..Found::NONE
    },
    Found {
        finding: "B20 in a line",
        files: &[("jobs", b"{\"payload\":1,\"unique_for\":\"1h\"}\n")],
        run: "leafpress queue push j.db q --ndjson jobs",
        status: 3,
        says: &["jobs:1:1: unique_for says how long a key is taken, and unique is missing"],
        leaves_no: &["j.db"],
        ..Found::NONE
    },
    Found {
        finding: "B20, for lines that have keys",
        files: &[("jobs", b"{\"payload\":1,\"unique\":\"a\"}\n{\"payload\":2}\n")],
        run: "leafpress queue push j.db q --ndjson jobs --unique-for waiting",
        holds: &[("j.db", "SELECT unique_key, unique_scope FROM leafpress_job", "'a',0;NULL,NULL")],
        ..Found::NONE
    },
    Found {
        finding: "B33",
        databases: &[("j.db", FOREIGN)],
        run: "leafpress queue push j.db q a 2>said; s=$?; cat said; wc -l <said; exit $s",
        status: 3,
        says: &[
            "j.db: has a table leafpress_job that is not the queue's",
            "rename that table",
            "\n3\n",
        ],
        never_says: &["CREATE"],
        holds: &[("j.db", "SELECT mine FROM leafpress_job", "'kept'")],
        ..Found::NONE
    },
    Found {
        finding: "B35",
        run: "leafpress queue schedule add j.db a nightly '0 3 * * *' x && \
              leafpress queue schedule add j.db b hourly '0 * * * *' x && \
              leafpress queue schedule list j.db && leafpress queue schedule list j.db --json && \
              leafpress queue schedule list j.db b",
        says: &[
            "a      nightly",
            "b      hourly",
            r#""name":"nightly","next_at_ms""#,
            r#""queue":"a""#,
            r#""queue":"b""#,
            "  hourly  0 * * * *",
        ],
        ..Found::NONE
    },
    Found {
        finding: "B35, without a schedule",
        run: "leafpress queue push j.db a x && leafpress queue schedule list j.db",
        says: &["no schedules"],
        ..Found::NONE
    },
    Found {
        finding: "B35, a queue that is not there",
        run: "leafpress queue push j.db a x && leafpress queue schedule list j.db none",
        status: 3,
        says: &["there is no queue 'none'", "it has a"],
        ..Found::NONE
    },
    Found {
        finding: "B44",
        run: "leafpress queue settings j.db q --rate 100/1m --group-rate 5/s >settings && \
              leafpress queue stats j.db --json && leafpress queue settings j.db q --json",
        says: &[r#""rate":[100,60.0]"#, r#""group_rate":[5,1.0]"#],
        never_says: &["nanos", "secs"],
        ..Found::NONE
    },
    Found {
        finding: "B45, a job that cannot be pushed",
        run: "leafpress queue push j.db q 'no json' --as-json; leafpress queue push j.db '' a; ls -A",
        says: &["--as-json", "a queue needs a name"],
        leaves_no: &["j.db"],
        never_says: &[".j.db"],
        ..Found::NONE
    },
    Found {
        finding: "the statuses of retry and purge where there is nothing to do or no terminal to ask at",
        run: "leafpress queue push j.db q a && leafpress queue retry j.db q --all-dead && \
              leafpress queue retry --help && leafpress queue purge --help && \
              leafpress queue purge j.db q --state ready",
        status: 2,
        says: &[
            "0 jobs are tried again",
            "with --all-dead also if none was dead",
            "2 the command line makes no sense, or jobs that are neither done nor dead need --yes",
            "add --yes",
        ],
        ..Found::NONE
    },
    Found {
        finding: "B45, no room",
        run: "(ulimit -f 64; trap '' XFSZ; leafpress queue push j.db q a); s=$?; ls -A; exit $s",
        status: 3,
        leaves_no: &["j.db"],
        never_says: &["j.db-wal", ".leafpress-"],
        ..Found::NONE
    },
    Found {
        finding: "B45, settings",
        run: "(ulimit -f 64; trap '' XFSZ; leafpress queue settings j.db q --lease 1m); s=$?; ls -A; exit $s",
        status: 3,
        leaves_no: &["j.db"],
        never_says: &["j.db-wal", ".leafpress-"],
        ..Found::NONE
    },
    Found {
        finding: "B45, a database that several make at once",
        run: "for n in 1 2 3 4 5 6; do leafpress queue push j.db q $n >out$n 2>&1 & done; wait; \
              cat out?; ls -A",
        never_says: &["error", ".j.db"],
        holds: &[(
            "j.db",
            "SELECT count(*), count(DISTINCT payload), count(DISTINCT queue) FROM leafpress_job",
            "6,6,1",
        )],
        ..Found::NONE
    },
    Found {
        finding: "B45, a first batch stays",
        files: &[("jobs", b"{\"payload\":1}\n{\"payload\":2}\nnonsense\n")],
        run: "leafpress queue push j.db q --ndjson jobs --batch 1",
        status: 1,
        says: &[
            "jobs:3:",
            "on disk: the 2 jobs that were pushed before it are in the queue; nothing of the rest",
        ],
        holds: &[("j.db", "SELECT count(*) FROM leafpress_job", "2")],
        ..Found::NONE
    },
    Found {
        finding: "jobs of a first batch were pushed, and the message denied it",
        run: "printf '1\n2\n{bad\n' >jobs; \
              leafpress queue push j.db q --lines --as-json --batch 2 <jobs; echo status $?; \
              leafpress queue push k.db q --lines --as-json --batch 1 --json <jobs; echo status $?; \
              leafpress queue push l.db q --lines --as-json --batch 3 <jobs; echo status $?",
        says: &[
            "1\n2\nstatus 1\n",
            r#""on_disk":"the 2 jobs that were pushed before it are in the queue; nothing of the rest""#,
            "on disk: the 2 jobs that were pushed before it are in the queue; nothing of the rest",
            "on disk: nothing was pushed",
            "status 2",
        ],
        holds: &[
            ("j.db", "SELECT count(*) FROM leafpress_job", "2"),
            ("k.db", "SELECT count(*) FROM leafpress_job", "2"),
        ],
        leaves_no: &["l.db"],
        ..Found::NONE
    },
    Found {
        finding: "a payload that is wrong is called one",
        run: "leafpress queue push j.db q --as-json '{'",
        status: 2,
        says: &["error: the payload '{', with --as-json: "],
        leaves_no: &["j.db"],
        ..Found::NONE
    },
    Found {
        finding: "B32, serde's words",
        files: &[
            ("a", br#"{"payload":1,"priority":"high"}"#),
            ("b", br#"{"payload":1,"priority":99999999999}"#),
            ("c", br#"{"payload":1,"group":7}"#),
            ("d", b"[1]"),
            ("e", br#"{"payload":1,"color":7}"#),
        ],
        run: "for f in a b c d e; do leafpress queue push j.db q --ndjson $f; done",
        status: 3,
        says: &[
            "a:1:30: it is the text \"high\", expected a whole number from -2147483648",
            "it is the number `99999999999`",
            "it is the number `7`, expected a text",
            "expected an object such as",
            "there is no member `color`",
        ],
        never_says: &["i32", "u32", "struct", "invalid type", "invalid value"],
        leaves_no: &["j.db"],
        ..Found::NONE
    },
    Found {
        finding: "B26 in queues",
        run: r#"n=$(printf 'x\nto do: run curl evil'); leafpress queue push j.db "$n" a && \
              leafpress queue stats j.db; leafpress queue list j.db none; \
              leafpress queue show j.db 1; leafpress queue settings j.db "$n""#,
        says: &[r"x\nto do: run curl evil"],
        never_says: &["\nto do: run"],
        ..Found::NONE
    },
    Found {
        finding: "B16 in the queue",
        run: "leafpress queue push file:x.db m x; leafpress queue push 'file:y.db?vfs=unix-none' m x; \
              leafpress queue push :memory: m x; leafpress queue stats FILE:x.db; ls -A",
        status: 0,
        says: &[
            "named by its path, not by a URI",
            "./file:x.db",
            "a database in memory",
            "./:memory:",
        ],
        leaves_no: &["x.db", "y.db", "file:x.db", ":memory:"],
        ..Found::NONE
    },
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
fn they_are_fixed() {
    assert_all(CASES);
}

/// B34: where neither the folder nor the file can be written, queues can be looked at.
#[test]
fn queues_can_be_looked_at_where_nothing_can_be_written() {
    use std::fs;
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
    use std::os::unix::process::CommandExt as _;
    use std::process::Command;

    const OTHER_USER: u32 = 65_534;
    for profile in ["rollback", "durable"] {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path();
        let program = path.join("leafpress");
        fs::copy(env!("CARGO_BIN_EXE_leafpress"), &program).expect("a copy of the program");
        let make = format!(
            "leafpress queue push j.db q a b --profile {profile} && \
             leafpress queue schedule add j.db q nightly '0 3 * * *' x --profile {profile}"
        );
        let (status, said) = super::shell(path, &make);
        assert_eq!(status, 0, "{said}");
        fs::set_permissions(path.join("j.db"), fs::Permissions::from_mode(0o444)).expect("a mode");
        fs::set_permissions(path, fs::Permissions::from_mode(0o555)).expect("a mode");
        // Root may write all the same.
        let is_root = fs::metadata(path).expect("it is there").uid() == 0;
        let looks: [(&[&str], &str); 5] = [
            (&["stats", "j.db"], "ready"),
            (&["stats", "j.db", "--json"], r#""ready":2"#),
            (&["list", "j.db", "q"], "ready"),
            (&["show", "j.db", "1"], "job 1"),
            (&["schedule", "list", "j.db"], "nightly"),
        ];
        for (action, expected) in looks {
            let mut command = Command::new(&program);
            command.arg("queue").args(action).current_dir(path);
            if is_root {
                command.uid(OTHER_USER).gid(OTHER_USER);
            }
            let output = command.output().expect("it runs");
            let said =
                String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
            assert_eq!(output.status.code(), Some(0), "{profile} {action:?}: {said}");
            assert!(said.contains(expected), "{profile} {action:?}: {said}");
        }
        let mut names: Vec<_> =
            fs::read_dir(path).expect("it").map(|it| it.expect("an entry").file_name()).collect();
        names.sort_unstable();
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("a mode");
        assert_eq!(names, ["j.db", "leafpress"], "{profile}: nothing was made");
    }
}

#[test]
fn jobs_that_wait_and_runs_are_told() {
    assert_all(WORK);
}

#[test]
fn an_operator_is_told_what_counts() {
    assert_all(OPERATED);
}

#[test]
fn pushes_that_cannot_be_meant_are_refused() {
    assert_all(PUSHES);
}
