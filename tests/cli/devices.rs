//! `devices`: every kind is there, with its devices or with a reason.

use serde_json::Value;

use super::{hunkwise, text};

#[test]
fn every_kind_is_listed_or_says_why_not() {
    let run = hunkwise(&["devices"]);
    assert_eq!(run.status.code(), Some(0), "{}", text(&run.stderr));
    let out = text(&run.stdout);
    for kind in ["cpu ", "cuda ", "wgpu ", "best "] {
        assert!(out.lines().any(|line| line.starts_with(kind)), "no {kind}in\n{out}");
    }
    if cfg!(not(feature = "wgpu")) {
        assert!(out.contains("--features wgpu"), "{out}");
    }
}

#[test]
fn the_same_as_json() {
    let run = hunkwise(&["devices", "--json"]);
    assert_eq!(run.status.code(), Some(0), "{}", text(&run.stderr));
    let all: Value = serde_json::from_slice(&run.stdout).unwrap();
    assert!(all["cpu"]["threads"].as_u64().unwrap() >= 1);
    for kind in ["cuda", "wgpu"] {
        let none = all[kind]["devices"].as_array().unwrap().is_empty();
        assert_eq!(none, all[kind]["reason"].is_string(), "{all}");
    }
    assert!(all["best"]["device"].is_string() && all["best"]["reason"].is_string());
    // Software is never the best.
    for adapter in all["wgpu"]["devices"].as_array().unwrap() {
        let name = adapter["name"].as_str().unwrap();
        if adapter["kind"] == "software" && std::env::var_os("HUNKWISE_WGPU_ADAPTER").is_none() {
            assert_ne!(all["best"]["device"], format!("wgpu: {name}"), "{all}");
        }
    }
}

#[test]
fn credit_is_computed_where_it_is_told() {
    let example = "examples/rollouts/hunkwise.jsonl";
    let on =
        |device: &str| hunkwise(&["credit", example, "-o", "-", "--quiet", "--device", device]);
    let host = on("cpu");
    assert_eq!(host.status.code(), Some(0), "{}", text(&host.stderr));
    assert_eq!(on("best").stdout, host.stdout);
    let wrong = on("gpu");
    assert_eq!(wrong.status.code(), Some(1));
    let message = text(&wrong.stderr);
    assert!(message.contains("cpu, cuda, cuda:NUMBER, wgpu or best"), "{message}");
    let absent = on("cuda:99");
    assert_eq!(absent.status.code(), Some(1));
    assert!(text(&absent.stderr).to_lowercase().contains("cuda"), "{}", text(&absent.stderr));
}
