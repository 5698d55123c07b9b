//! Runs: failed, killed, current, damaged, and what no manifest names.

use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime};

use leafpress::load::{CancelToken, ColumnType, Loader};
use leafpress::rusqlite::Connection;
use leafpress::{ErrorKind, Result};
use leafpress_shards::{
    Key, Manifest, PartBuilder, RouteBy, Routing, Schema, Scratch, ShardReport, Sharder, Shards,
};
use tempfile::TempDir;

use super::{lines, manifest, shard};

#[test]
fn a_failed_run_leaves_the_current_one_and_nothing_else() {
    let folder = TempDir::new().expect("a folder");
    assert!(shard(folder.path(), "id\n1\n", "hash(no)", 2).is_err());
    assert!(!folder.path().join("out").exists());
    fs::create_dir(folder.path().join("out")).expect("a folder");
    assert!(shard(folder.path(), "id\n1\n", "hash(no)", 2).is_err());
    assert_eq!(fs::read_dir(folder.path().join("out")).expect("it stays").count(), 0);
    shard(folder.path(), "id\n1\n2\n", "hash(id)", 2).expect("a run");
    let before = manifest(folder.path());
    let input = folder.path().join("input.csv");
    let attempts: [Box<dyn Fn() -> Result<ShardReport>>; 4] = [
        Box::new(|| shard(folder.path(), "id\n1\n", "range(no)", 2)),
        Box::new(|| shard(folder.path(), "id,b\n1\n", "rows", 2)),
        Box::new(|| shard(folder.path(), "id\n1\n", "rows", 0)),
        Box::new(|| {
            fs::write(&input, "id\n1\n1\n").expect("an input");
            let sharder = Sharder::new(
                Shards::at(folder.path().join("out")).expect("a folder"),
                RouteBy::Rows,
                1,
            );
            sharder
                .with_parts(|loader| loader.primary_key("id"))
                .run(|stage| stage.load_file(&input))
        }),
    ];
    for attempt in attempts {
        let error = attempt().expect_err("it fails");
        assert_eq!(manifest(folder.path()), before, "{error}");
        assert_eq!(
            fs::read_dir(folder.path().join("out/runs")).expect("runs").count(),
            1,
            "{error}"
        );
    }
    let token = CancelToken::new();
    token.cancel();
    let sharder =
        Sharder::new(Shards::at(folder.path().join("out")).expect("a folder"), RouteBy::Rows, 1)
            .cancel(token);
    let error = sharder.run(|stage| stage.load_file(&input)).expect_err("it was stopped");
    assert!(matches!(error.kind(), ErrorKind::Cancelled), "{error}");
    assert_eq!(manifest(folder.path()), before);
}

/// One part by hand, as a task of an engine makes it.
fn part(
    out: &Path,
    run: &str,
    part: usize,
    attempt: &str,
    rows: i64,
) -> leafpress_shards::PartRecord {
    let columns = [leafpress::load::Column::new("id", ColumnType::Integer)];
    let shards = Shards::at(out).expect("a folder");
    let builder = PartBuilder::new(&shards, run, part).attempt(attempt).key("id");
    builder
        .build(|loader| loader.table("t").load_rows(&columns, (0..rows).map(|id| (id,))))
        .expect("a part")
        .0
}

#[test]
fn attempts_do_not_meet_and_gc_removes_those_that_lost() {
    let folder = TempDir::new().expect("a folder");
    let out = folder.path().join("out");
    let shards = Shards::at(&out).expect("a folder");
    let publication = shards.begin().expect("a run");
    let winner = part(&out, &publication.run, 0, "b", 5);
    let loser = part(&out, &publication.run, 0, "a", 5);
    // The same attempt, called again, gives the same record.
    assert_eq!(part(&out, &publication.run, 0, "b", 5), winner);
    assert_ne!(loser.path, winner.path);
    assert_eq!(
        (winner.smallest.clone(), winner.largest.clone()),
        (Key::Integer(0), Key::Integer(4))
    );
    // No reader sees the run yet.
    assert!(Shards::open(&out).is_err());
    let new = Manifest::new(
        publication.run.clone(),
        Schema::default(),
        Routing::Rows,
        vec![winner.clone()],
    );
    shards.publish(&publication, new).expect("it is published");
    let lost = shards.begin().expect("a run that dies");
    part(&out, &lost.run, 0, "a", 5);

    assert_eq!(shards.gc(Duration::from_secs(3600), false).expect("gc").files, [""; 0]);
    let looked = shards.gc(Duration::ZERO, true).expect("gc");
    assert_eq!(looked.files.len(), 2, "{looked:?}");
    assert!(out.join(&loser.path).exists());
    let removed = shards.gc(Duration::ZERO, false).expect("gc");
    assert_eq!(removed.files, looked.files);
    assert!(removed.files.contains(&loser.path));
    assert!(out.join(&winner.path).exists() && !out.join(&loser.path).exists());
    assert!(!out.join("runs").join(&lost.run).exists());
    assert_eq!(shards.gc(Duration::ZERO, false).expect("gc").files, [""; 0]);
    for wrong in ["", "../a", "a/b", "a b"] {
        let built =
            PartBuilder::new(&shards, &publication.run, 0).attempt(wrong).build(|_| unreachable!());
        assert!(matches!(built.expect_err("a name").kind(), ErrorKind::Misuse(_)));
    }
}

/// An engine may report an error of one task while others still run.
#[test]
fn a_task_that_outlives_its_run_leaves_nothing() {
    let folder = TempDir::new().expect("a folder");
    let out = folder.path().join("out");
    let shards = Shards::at(&out).expect("shards");
    let builder = |run: &str| PartBuilder::new(&shards, run, 0);
    let rows = |loader: Loader| loader.table("t").load_reader("rows.csv", &b"id\n1\n"[..]);

    let publication = shards.begin().expect("a run");
    builder(&publication.run)
        .build(|loader| {
            shards.abandon(&publication);
            rows(loader)
        })
        .expect_err("the folder is gone before the load");
    builder(&publication.run).build(|_| unreachable!()).expect_err("the folder is gone");
    Scratch::new(&shards, &publication.run, "rows").expect_err("the folder is gone");
    assert!(!out.exists());

    let publication = shards.begin().expect("a run");
    let scratch = Scratch::new(&shards, &publication.run, "rows").expect("a file");
    fs::write(scratch.file(), "x").expect("the rows");
    let built = builder(&publication.run).build(|loader| {
        let report = rows(loader)?;
        shards.abandon(&publication);
        Ok(report)
    });
    built.expect_err("the folder is gone after the load");
    scratch.keep().expect_err("the folder is gone");
    assert!(!out.exists());
}

#[test]
fn a_home_for_rows_on_their_way_is_left_as_it_was() {
    let folder = TempDir::new().expect("a folder");
    let shards = Shards::at(folder.path().join("out")).expect("shards");
    let publication = shards.begin().expect("a run");
    for was_there in [false, true] {
        let home = folder.path().join(format!("scratch-{was_there}"));
        if was_there {
            fs::create_dir(&home).expect("a folder");
        }
        let scratch = Shards::at(&home).expect("a home");
        let begun = scratch.begin_scratch(&publication).expect("the run");
        let file = Scratch::new(&scratch, &publication.run, "rows").expect("a file");
        fs::write(file.file(), "x").expect("the rows");
        file.keep().expect("its place");
        scratch.abandon(&begun);
        assert_eq!(home.exists(), was_there);
        assert!(!home.join("runs").exists());
    }
}

/// Copies of a process, or of a machine, have the same state of what only seems random.
#[test]
fn runs_of_one_moment_have_different_names() {
    let folder = tempfile::tempdir().unwrap();
    let shards = Shards::at(folder.path()).unwrap();
    let digits = [(); 2].map(|()| {
        fastrand::seed(7);
        shards.begin().unwrap().run.rsplit_once('-').unwrap().1.to_owned()
    });
    assert_ne!(digits[0], digits[1]);
}

/// A publication that is killed leaves files beside the parts.
#[test]
fn gc_removes_what_a_killed_publication_leaves() {
    let folder = TempDir::new().expect("a folder");
    shard(folder.path(), "id\n1\n", "rows", 1).expect("a run");
    let out = folder.path().join("out");
    let shards = Shards::open(&out).expect("shards");
    let (published, lost) =
        (shards.manifest().expect("a manifest").run, shards.begin().expect("a run").run);
    let left = [
        "manifest.db-journal",
        ".manifest.db.leafpress-7-1.tmp",
        ".manifest.json.leafpress-7-1.tmp",
    ];
    for run in [&published, &lost] {
        for name in left {
            fs::write(out.join("runs").join(run).join(name), "x").expect("a file");
        }
    }
    fs::write(out.join("runs").join(&lost).join("manifest.db"), "x").expect("a file");
    assert_eq!(shards.gc(Duration::from_secs(3600), false).expect("gc").files, [""; 0]);
    assert_eq!(shards.gc(Duration::ZERO, false).expect("gc").files.len(), 7);
    assert!(!out.join("runs").join(&lost).exists());
    let run = out.join("runs").join(&published);
    assert!(run.join("manifest.db").exists() && run.join("manifest.json").exists());
    assert!(shards.verify(|| false).expect("a verdict").sound);
    // What is not ours stays, and so does its folder.
    let other = shards.begin().expect("a run").run;
    fs::write(out.join("runs").join(&other).join("notes.txt"), "x").expect("a file");
    assert_eq!(shards.gc(Duration::ZERO, false).expect("gc").files, [""; 0]);
    assert!(out.join("runs").join(&other).join("notes.txt").exists());
}

/// Lets a file be changed so long ago.
fn make_old(path: &Path, age: Duration) {
    let file = fs::File::options().write(true).open(path).expect("a file");
    file.set_modified(SystemTime::now() - age).expect("its time");
}

/// The first parts of a long run are old when its last ones are pressed.
#[test]
fn gc_keeps_all_parts_of_a_run_that_goes_on() {
    let folder = TempDir::new().expect("a folder");
    let out = folder.path().join("out");
    let shards = Shards::at(&out).expect("a folder");
    let publication = shards.begin().expect("a run");
    let (hour, day) = (Duration::from_secs(3600), Duration::from_secs(24 * 3600));
    let records: Vec<_> = (0..3).map(|at| part(&out, &publication.run, at, "a", 5)).collect();
    let old = || records.iter().map(|record| out.join(&record.path));
    old().take(2).for_each(|path| make_old(&path, 2 * day));
    assert_eq!(shards.gc(day, false).expect("gc").files, [""; 0], "the last part is new");
    old().for_each(|path| make_old(&path, 2 * day));
    assert_eq!(shards.gc(day, true).expect("gc").files.len(), 3, "no file is new");
    shards.keep_alive(&publication.run).expect("a sign of life");
    assert_eq!(shards.gc(day, false).expect("gc").files, [""; 0]);
    let sign = out.join("runs").join(&publication.run).join("_ALIVE");
    make_old(&sign, 2 * hour);
    shards.keep_alive(&publication.run).expect("another one");
    assert_eq!(shards.gc(hour, false).expect("gc").files, [""; 0]);
    let run = publication.run.clone();
    let new = Manifest::new(run, Schema::default(), Routing::Rows, records.clone());
    shards.publish(&publication, new).expect("it is published");
    assert!(!sign.exists());

    let dead = shards.begin().expect("a run that dies").run;
    shards.keep_alive(&dead).expect("a sign of life");
    assert_eq!(shards.gc(Duration::ZERO, false).expect("gc").files.len(), 1);
    assert!(!out.join("runs").join(&dead).exists());
    assert!(shards.keep_alive(&dead).is_err() && !out.join("runs").join(&dead).exists());
}

#[test]
fn a_run_without_all_of_its_parts_never_becomes_current() {
    let folder = TempDir::new().expect("a folder");
    let out = folder.path().join("out");
    let shards = Shards::at(&out).expect("a folder");
    let first = shards.begin().expect("a run");
    let manifest = |run: &str| {
        let records = (0..2).map(|at| part(&out, run, at, "a", 5)).collect();
        Manifest::new(run.to_owned(), Schema::default(), Routing::Rows, records)
    };
    let whole = shards.publish(&first, manifest(&first.run)).expect("it is published");
    let damages: [fn(&Path); 2] = [
        |part| fs::remove_file(part).expect("it goes"),
        |part| fs::write(part, "x").expect("it changes"),
    ];
    for damage in damages {
        let second = shards.begin().expect("a run");
        let new = manifest(&second.run);
        damage(&out.join(&new.parts[1].path));
        let error = shards.publish(&second, new).expect_err("a part is gone");
        assert!(matches!(error.kind(), ErrorKind::Input { .. }), "{error}");
        assert!(error.to_string().contains("part 1 of run"), "{error}");
        assert_eq!(shards.list().expect("runs").runs.len(), 1);
    }
    let second = shards.begin().expect("a run");
    shards.publish(&second, manifest(&second.run)).expect("it is published");
    for damage in damages.iter().rev() {
        damage(&out.join(&whole.parts[0].path));
        let error = shards.rollback(None).expect_err("a part is gone");
        assert!(matches!(error.kind(), ErrorKind::Input { .. }), "{error}");
        assert_eq!(shards.manifest().expect("a manifest").run, second.run);
    }
}

/// Each run has parts of its own: `gc` of another run would remove them.
#[test]
fn a_run_names_no_part_of_another_one() {
    let folder = TempDir::new().expect("a folder");
    let out = folder.path().join("out");
    let shards = Shards::at(&out).expect("a folder");
    let [first, second] = [(); 2].map(|()| shards.begin().expect("a run"));
    let record = part(&out, &first.run, 0, "a", 5);
    let of_run = |run: &str| {
        Manifest::new(run.to_owned(), Schema::default(), Routing::Rows, vec![record.clone()])
    };
    let error = shards.publish(&second, of_run(&second.run)).expect_err("a part of another run");
    assert!(matches!(error.kind(), ErrorKind::Misuse(_)), "{error}");
    assert!(Shards::open(&out).is_err() && shards.list().expect("runs").runs.is_empty());
    shards.publish(&first, of_run(&first.run)).expect("control: of the run itself");

    // A manifest in the folder of another run names what is not there.
    let json = |run: &str| out.join("runs").join(run).join("manifest.json");
    fs::copy(json(&first.run), json(&second.run)).expect("a copy");
    let collected = shards.gc(Duration::ZERO, false).expect("gc");
    assert_eq!((collected.files.len(), collected.problems.len()), (0, 1), "{collected:?}");
    assert!(collected.problems[0].contains("it is of run"), "{collected:?}");
    assert!(out.join(&record.path).exists());
}

#[test]
fn a_damaged_manifest_hides_no_other_run() {
    let folder = TempDir::new().expect("a folder");
    let out = folder.path().join("out");
    for rows in ["id\n1\n", "id\n1\n2\n"] {
        shard(folder.path(), rows, "rows", 1).expect("a run");
    }
    let shards = Shards::open(&out).expect("shards");
    let [old, new] = <[_; 2]>::try_from(shards.list().expect("runs").runs).expect("two runs");
    let lost = |run: &str| out.join("runs").join(run).join("parts/00000-lost.db");
    for run in [&old.run, &new.run] {
        fs::write(lost(run), "x").expect("a file");
    }
    let manifest = out.join("runs").join(&old.run).join("manifest.json");
    fs::write(&manifest, "{").expect("damage");
    let runs = shards.list().expect("runs").runs;
    assert!(runs[0].problem.as_ref().is_some_and(|it| it.contains("manifest.json")), "{runs:?}");
    assert_eq!((runs[1].problem.is_none(), runs[1].rows, runs[1].current), (true, 2, true));
    let collected = shards.gc(Duration::ZERO, false).expect("gc");
    assert_eq!((collected.files.len(), collected.problems.len()), (1, 1), "{collected:?}");
    assert!(lost(&old.run).exists() && !lost(&new.run).exists());
    assert!(shards.rollback(None).is_err());
}

#[test]
fn gc_keeps_the_current_run_without_its_manifest() {
    let folder = TempDir::new().expect("a folder");
    let out = folder.path().join("out");
    let old = shard(folder.path(), "id\n1\n", "rows", 1).expect("a run").run;
    let new = shard(folder.path(), "id\n1\n2\n", "rows", 1).expect("a run").run;
    let shards = Shards::open(&out).expect("shards");
    let files = |run: &str| {
        let run = out.join("runs").join(run);
        let parts = fs::read_dir(run.join("parts")).map_or(0, Iterator::count);
        parts + usize::from(run.join("manifest.db").exists())
    };
    for run in [&old, &new] {
        fs::remove_file(out.join("runs").join(run).join("manifest.json")).expect("it is removed");
    }
    let damaged = out.join("_CURRENT");
    let current = fs::read(&damaged).expect("a file");
    fs::write(&damaged, "{").expect("damage");
    let collected = shards.gc(Duration::ZERO, false).expect("gc");
    assert_eq!((collected.files.len(), collected.problems.len()), (0, 1), "{collected:?}");
    assert!(collected.problems[0].contains("_CURRENT"), "{collected:?}");

    fs::write(&damaged, current).expect("a file");
    let runs = shards.list().expect("runs").runs;
    assert_eq!((runs.len(), &runs[0].run, runs[0].current), (1, &new, true), "{runs:?}");
    let problem = runs[0].problem.as_ref().expect("a problem");
    assert!(problem.contains("manifest.json: it is not there, and _CURRENT names"), "{problem}");
    let collected = shards.gc(Duration::ZERO, false).expect("gc");
    assert_eq!(collected.problems, [problem.as_str()]);
    assert_eq!((files(&old), files(&new)), (0, 2), "{collected:?}");

    // Not even its folder is left.
    fs::remove_dir_all(out.join("runs").join(&new)).expect("it is removed");
    assert_eq!(shards.list().expect("runs").runs[0].problem.as_ref(), Some(problem));
    assert_eq!(shards.gc(Duration::ZERO, false).expect("gc").problems, [problem.as_str()]);
}

#[test]
fn a_published_run_without_its_manifest_is_told_of_and_kept() {
    let folder = TempDir::new().expect("a folder");
    let out = folder.path().join("out");
    let runs = ["id\n1\n", "id\n2\n"].map(|rows| shard(folder.path(), rows, "rows", 1));
    let [old, new] = runs.map(|run| run.expect("a run").run);
    let lost = out.join("runs").join(&old).join("manifest.json");
    let manifest = fs::read(&lost).expect("a manifest");
    fs::remove_file(&lost).expect("it is removed");
    let shards = Shards::open(&out).expect("shards");
    let listed = shards.list().expect("runs").runs;
    let problem = listed[0].problem.as_ref().expect("a problem");
    assert_eq!((&listed[0].run, listed[0].current, &listed[1].run), (&old, false, &new));
    assert!(problem.contains("it is not there, and runs/") && problem.contains(&new), "{problem}");
    let collected = shards.gc(Duration::ZERO, false).expect("gc");
    assert_eq!((collected.files.len(), &collected.problems[..]), (0, &[problem.clone()][..]));
    fs::write(&lost, manifest).expect("it is back");
    assert!(shards.list().expect("runs").runs[0].problem.is_none());
    assert_eq!(shards.rollback(None).expect("the old run").run, old);
    // One that was removed as a whole is no problem.
    shards.rollback(Some(&new)).expect("the new run");
    fs::remove_dir_all(out.join("runs").join(&old)).expect("it is removed");
    assert_eq!(shards.list().expect("runs").runs.len(), 1);
    assert!(shards.gc(Duration::ZERO, false).expect("gc").problems.is_empty());
}

#[test]
fn of_two_publications_at_once_one_is_told() {
    let folder = TempDir::new().expect("a folder");
    let out = folder.path().join("out");
    let shards = Shards::at(&out).expect("a folder");
    let [first, second] = [(); 2].map(|()| shards.begin().expect("a run"));
    let publish = |publication: &leafpress_shards::Publication| {
        let record = part(&out, &publication.run, 0, "a", 3);
        let new =
            Manifest::new(publication.run.clone(), Schema::default(), Routing::Rows, vec![record]);
        shards.publish(publication, new)
    };
    publish(&first).expect("it is published");
    let error = publish(&second).expect_err("it is not");
    assert!(matches!(error.kind(), ErrorKind::Changed { .. }), "{error}");
    assert_eq!(shards.manifest().expect("a manifest").run, first.run);
    // Both are complete; either can be made current.
    assert_eq!(shards.list().expect("runs").runs.len(), 2);
    shards.rollback(Some(&second.run)).expect("a rollback");
    assert_eq!(shards.manifest().expect("a manifest").run, second.run);
    assert!(shards.rollback(Some("none")).is_err() && shards.rollback(Some("../x")).is_err());
}

#[test]
fn rollback_leads_to_the_run_before() {
    let folder = TempDir::new().expect("a folder");
    shard(folder.path(), "id\n1\n", "rows", 1).expect("a run");
    let first = manifest(folder.path());
    let shards = Shards::open(folder.path().join("out")).expect("shards");
    assert!(shards.rollback(None).is_err());
    shard(folder.path(), "id\n1\n2\n", "rows", 1).expect("a run");
    assert_eq!(manifest(folder.path()).previous.as_ref(), Some(&first.run));
    shards.rollback(None).expect("a rollback");
    assert_eq!(manifest(folder.path()), first);
}

#[test]
fn damage_is_found_and_named() {
    let folder = TempDir::new().expect("a folder");
    let rows = lines(0..3000, |id| format!("{id},text\n"));
    shard(folder.path(), &format!("id,t\n{rows}"), "hash(id)", 3).expect("a run");
    let shards = Shards::open(folder.path().join("out")).expect("shards");
    let parts = shards.manifest().expect("a manifest").parts;
    let paths: Vec<_> = parts.iter().map(|part| shards.root().join(&part.path)).collect();
    let mut bytes = fs::read(&paths[0]).expect("a part");
    *bytes.last_mut().expect("bytes") ^= 1;
    fs::write(&paths[0], bytes).expect("damage");
    fs::remove_file(&paths[2]).expect("a part is gone");
    let verdict = shards.verify(|| false).expect("a verdict");
    let problems = verdict.problems.join("\n");
    assert!(!verdict.sound);
    assert!(problems.contains("part 0: ") && problems.contains("checksum"), "{problems}");
    assert!(problems.contains("part 2: ") && !problems.contains("part 1: "), "{problems}");
    assert!(matches!(shards.verify(|| true).expect_err("stopped").kind(), ErrorKind::Cancelled));

    let manifest = shards.root().join("runs").join(&verdict.run).join("manifest.json");
    let text = fs::read_to_string(&manifest).expect("a manifest");
    fs::write(&manifest, text.replace("\"seed\": 0", "\"seed\": 1")).expect("a change");
    assert!(Shards::open(shards.root()).expect_err("it differs").to_string().contains("checksum"));
    for text in ["{", r#"{"run": "../there", "manifest": "m", "sha256": "s"}"#] {
        fs::write(shards.root().join("_CURRENT"), text).expect("damage");
        let error = Shards::open(shards.root()).expect_err("it names no run");
        assert!(matches!(error.kind(), ErrorKind::Input { .. }), "{error}");
    }
}

#[test]
fn a_database_of_the_manifest_that_says_something_else_is_a_problem() {
    let folder = TempDir::new().expect("a folder");
    shard(folder.path(), "id,t\n1,a\n2,b\n", "range(id)", 2).expect("a run");
    let shards = Shards::open(folder.path().join("out")).expect("shards");
    let problems = || shards.verify(|| false).expect("a verdict").problems;
    assert!(problems().is_empty());
    let catalog =
        shards.root().join("runs").join(shards.manifest().expect("one").run).join("manifest.db");
    let change =
        |sql: &str| Connection::open(&catalog).and_then(|it| it.execute_batch(sql)).expect(sql);
    for (sql, undone) in [
        (
            "UPDATE part SET rows = rows + 1 WHERE part = 1",
            "UPDATE part SET rows = rows - 1 WHERE part = 1",
        ),
        (
            "UPDATE part SET smallest = NULL WHERE part = 0",
            "UPDATE part SET smallest = '1' WHERE part = 0",
        ),
        (
            "UPDATE manifest SET name = 'seen' WHERE name = 'rows'",
            "UPDATE manifest SET name = 'rows' WHERE name = 'seen'",
        ),
    ] {
        change(sql);
        assert!(problems().join("").contains("manifest.db: it says something else"), "{sql}");
        change(undone);
        assert!(problems().is_empty(), "{undone}: {:?}", problems());
    }
    change("INSERT INTO manifest VALUES ('of a later version', '1')");
    assert!(problems().is_empty());
    fs::write(&catalog, "no database").expect("damage");
    assert!(problems().join("").contains("manifest.db: "));
    fs::remove_file(&catalog).expect("it is gone");
    assert!(problems().join("").contains("manifest.db is missing"));
}

/// The database says what the JSON says.
#[test]
fn the_manifest_is_a_database_too() {
    let folder = TempDir::new().expect("a folder");
    shard(folder.path(), "id,name\n1,a\n2,b\n3,\n", "range(name)", 3).expect("a run");
    let found = manifest(folder.path());
    let path = folder.path().join("out/runs").join(&found.run).join("manifest.db");
    let connection = Connection::open(path).expect("a database");
    let mut object = serde_json::Map::new();
    let mut statement = connection.prepare("SELECT name, value FROM manifest").expect("SQL");
    let mut rows = statement.query([]).expect("rows");
    while let Some(row) = rows.next().expect("a row") {
        let (name, value): (String, String) =
            (row.get(0).expect("text"), row.get(1).expect("text"));
        object.insert(name, serde_json::from_str(&value).expect("JSON"));
    }
    let sql = "SELECT json_group_array(json_object('part', part, 'path', path, 'bytes', bytes, 'sha256', sha256,
        'rows', rows, 'smallest', json(smallest), 'largest', json(largest), 'page_size', page_size, 'pages', pages,
        'interior_pages', json(interior_pages), 'attempt', attempt)) FROM part";
    let parts: String = connection.query_row(sql, [], |row| row.get(0)).expect("parts");
    object.insert("parts".to_owned(), serde_json::from_str(&parts).expect("JSON"));
    let json = serde_json::to_vec(&object).expect("JSON");
    assert_eq!(Manifest::from_json(&json), Ok(found));
}

/// The mark of a gc that was killed before it looked if the run was published meanwhile.
#[test]
fn a_mark_in_a_run_that_was_current_goes_at_once() {
    let day = Duration::from_secs(86_400);
    let folder = TempDir::new().expect("a folder");
    let out = folder.path().join("out");
    let to = Shards::at(&out).expect("a folder");
    let names = || to.list().expect("runs").runs.into_iter().map(|run| run.run);
    for id in 0..3 {
        shard(folder.path(), &format!("id\n{id}\n"), "hash(id)", 1).expect("a run");
    }
    // The second run never was current, as far as anything says.
    let [first, second, third]: [String; 3] =
        names().collect::<Vec<_>>().try_into().expect("three runs");
    let path = out.join("runs").join(&third).join("manifest.json");
    let text = fs::read_to_string(&path).expect("a manifest").replace(&second, &first);
    fs::write(&path, text).expect("a manifest");
    let mark = |run: &str| out.join("runs").join(run).join("_REMOVING");
    for run in [&first, &second] {
        fs::write(mark(run), "").expect("a mark");
        to.rollback(Some(run)).expect_err("its files may go");
    }
    let collected = to.gc(day, false).expect("gc");
    assert_eq!(collected.files, [format!("runs/{first}/_REMOVING")]);
    assert_eq!((collected.too_young, mark(&second).exists()), (1, true));
    to.rollback(Some(&first)).expect("no mark");
    to.rollback(Some(&second)).expect_err("its files may go");
    to.gc(Duration::ZERO, false).expect("gc");
    to.rollback(Some(&second)).expect("no mark");
}
