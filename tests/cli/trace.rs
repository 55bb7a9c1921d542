//! The trace of `hunkwise profile` against the trace event format of Chrome ("Trace Event Format", JSON object form),
//! which Perfetto reads.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::profile::{METHODS, STAGES};
use super::{folder, hunkwise, text};

/// Name, begin and end in nanoseconds.
type Slice = (String, i64, i64);

/// What a viewer finds in a trace.
#[derive(Debug, Default)]
struct Trace {
    /// Name and order of each process.
    processes: BTreeMap<u64, (String, u64)>,
    threads: BTreeMap<(u64, u64), String>,
    tracks: BTreeMap<(u64, u64), Vec<Slice>>,
}

/// Reads a trace and checks every rule of the format for the two kinds of events in use: complete events and metadata.
fn read(trace: &Value) -> Result<Trace, String> {
    let unit = trace.get("displayTimeUnit").and_then(Value::as_str);
    if unit.is_some_and(|unit| !["ms", "ns"].contains(&unit)) {
        return Err(format!("unit {unit:?}"));
    }
    let events = trace.get("traceEvents").and_then(Value::as_array).ok_or("no events")?;
    let mut read = Trace::default();
    for event in events {
        let lacks = |what: &str| format!("{event} lacks {what}");
        let string = |field: &str| event.get(field).and_then(Value::as_str);
        let number = |field: &str| event.get(field).and_then(Value::as_u64);
        // Microseconds, kept as whole nanoseconds.
        let time = |field: &str| {
            let given = event.get(field).and_then(Value::as_f64);
            given.filter(|us| us.is_finite() && *us >= 0.0).map(|us| (us * 1e3).round() as i64)
        };
        let name = string("name").ok_or_else(|| lacks("name"))?;
        let track = (
            number("pid").ok_or_else(|| lacks("pid"))?,
            number("tid").ok_or_else(|| lacks("tid"))?,
        );
        let ts = time("ts").ok_or_else(|| lacks("ts"))?;
        match string("ph").ok_or_else(|| lacks("ph"))? {
            "X" => {
                let dur = time("dur").ok_or_else(|| lacks("dur"))?;
                string("cat").ok_or_else(|| lacks("cat"))?;
                read.tracks.entry(track).or_default().push((name.to_string(), ts, ts + dur));
            }
            "M" => {
                let args = event.get("args").ok_or_else(|| lacks("args"))?;
                let called = args.get("name").and_then(Value::as_str).map(str::to_string);
                let process = read.processes.entry(track.0).or_default();
                match name {
                    "process_name" => process.0 = called.ok_or_else(|| lacks("args.name"))?,
                    "process_sort_index" => {
                        let order = args.get("sort_index").and_then(Value::as_u64);
                        process.1 = order.ok_or_else(|| lacks("args.sort_index"))?;
                    }
                    "thread_name" => {
                        let called = called.ok_or_else(|| lacks("args.name"))?;
                        read.threads.insert(track, called);
                    }
                    other => return Err(format!("metadata {other}")),
                }
            }
            other => return Err(format!("event of type {other}")),
        }
    }
    for (track, slices) in &read.tracks {
        // Slices of a track are in order, and each lies inside the ones that are open or begins after their end.
        let mut open: Vec<i64> = Vec::new();
        let mut before = 0;
        for (name, began, ended) in slices {
            if *began < before {
                return Err(format!("{name} of {track:?} begins before the event above it"));
            }
            before = *began;
            while open.last().is_some_and(|end| end <= began) {
                open.pop();
            }
            if open.last().is_some_and(|end| end < ended) {
                return Err(format!("{name} of {track:?} ends outside the slice that it is in"));
            }
            open.push(*ended);
        }
    }
    Ok(read)
}

#[test]
fn a_profile_writes_a_trace_that_viewers_open() {
    for threads in ["1", "2"] {
        let folder = folder();
        let out = folder.path().join("trace.json");
        let out = out.to_str().unwrap();
        let args = ["--synthetic", "3x4x2x10", "--repeat", "1", "--threads", threads];
        let run = hunkwise(&[&["profile"], &args[..], &["--trace", out]].concat());
        assert_eq!(run.status.code(), Some(0), "{}", text(&run.stderr));
        let trace: Value = serde_json::from_slice(&std::fs::read(out).unwrap()).expect("JSON");
        let run_ns = (trace["otherData"]["run_us"].as_f64().unwrap() * 1e3).round() as i64;
        let read = read(&trace).expect("a trace in the format");
        let processes: Vec<(&str, u64)> =
            read.processes.values().map(|(name, order)| (name.as_str(), *order)).collect();
        assert_eq!(processes, METHODS.into_iter().zip(0..).collect::<Vec<_>>());
        // Process 0 is the idle one to Perfetto.
        assert!(!read.processes.contains_key(&0));
        assert_eq!(read.tracks.len(), 5 * 3);
        for ((pid, tid), slices) in &read.tracks {
            assert_eq!(read.threads[&(*pid, *tid)], format!("task-{}", tid - 1));
            // The task, and in it each stage that runs, one after the other, from its beginning.
            let names: Vec<&str> = slices.iter().map(|slice| slice.0.as_str()).collect();
            let stages = if *pid <= 2 { &STAGES[4..] } else { &STAGES[..] };
            assert_eq!(names, [&["task"], stages].concat());
            assert_eq!(slices[0].1, slices[1].1);
            assert!(slices[1..].windows(2).all(|pair| pair[0].2 == pair[1].1), "{slices:?}");
            assert!(slices[0].2 <= run_ns, "{slices:?} of {run_ns}");
        }
        // Methods run one after the other.
        let ends = |pid: u64| {
            let of_method = || read.tracks.iter().filter(move |(track, _)| track.0 == pid);
            let first = of_method().map(|(_, slices)| slices[0].1).min();
            (first, of_method().map(|(_, slices)| slices[0].2).max())
        };
        assert!((1..5).all(|pid| ends(pid).1 <= ends(pid + 1).0));
    }
}

#[test]
fn what_is_not_in_the_format_is_found() {
    let event = |name: &str, ts: f64, dur: f64| json!({"name": name, "cat": "c", "ph": "X", "ts": ts, "dur": dur, "pid": 1, "tid": 1});
    let of = |events: &[Value]| read(&json!({ "traceEvents": events })).map(|_| ());
    let inside = [event("a", 1.0, 9.0), event("b", 1.0, 4.0), event("c", 5.0, 5.0)];
    assert_eq!(of(&inside), Ok(()));
    assert_eq!(of(&[event("a", 1.0, 2.0), event("b", 3.0, 4.0)]), Ok(()));
    for field in ["name", "ph", "ts", "dur", "pid", "tid", "cat"] {
        let mut without = event("a", 1.0, 2.0);
        without.as_object_mut().unwrap().remove(field);
        assert!(of(&[without]).unwrap_err().contains(field), "{field}");
    }
    let outside = of(&[event("a", 1.0, 3.0), event("b", 2.0, 4.0)]);
    assert!(outside.unwrap_err().contains("ends outside"));
    let backwards = of(&[event("a", 3.0, 1.0), event("b", 1.0, 1.0)]);
    assert!(backwards.unwrap_err().contains("begins before"));
    assert!(of(&[event("a", -1.0, 1.0)]).is_err() && read(&json!([])).is_err());
}
