//! difflib's results on small sequences (CPython 3.11), a group by hand, NumPy's sums.

use hunkwise::opcodes::{
    Form, Root, Settings, Tag, Unit, anchors, baselined, fill, groupability, mean, opcodes, ratio,
    refine,
};

fn symbols(text: &str) -> Vec<u32> {
    text.chars().map(u32::from).collect()
}

fn listed(a: &str, b: &str, autojunk: bool) -> Vec<(Tag, usize, usize, usize, usize)> {
    let found = opcodes(&symbols(a), &symbols(b), autojunk);
    found.iter().map(|one| (one.tag, one.a.0, one.a.1, one.b.0, one.b.1)).collect()
}

#[test]
fn the_earliest_of_equal_blocks_is_taken() {
    use Tag::{Delete, Equal, Insert, Replace};
    assert_eq!(
        listed("abcabcabc", "cbacbaabc", true),
        [(Insert, 0, 0, 0, 6), (Equal, 0, 3, 6, 9), (Delete, 3, 9, 9, 9)]
    );
    assert_eq!(
        listed("qabxcd", "abycdf", true),
        [
            (Delete, 0, 1, 0, 0),
            (Equal, 1, 3, 0, 2),
            (Replace, 3, 4, 2, 3),
            (Equal, 4, 6, 3, 5),
            (Insert, 6, 6, 5, 6)
        ]
    );
    assert_eq!(listed("", "", true), []);
}

#[test]
fn frequent_symbols_start_no_block() {
    let (a, b) = ("xa".repeat(150), "ya".repeat(150));
    // 300 symbols, each of two kinds: none is left to start a block, and the first ones differ.
    assert_eq!(listed(&a, &b, true), [(Tag::Replace, 0, 300, 0, 300)]);
    assert_eq!(ratio(&symbols(&a), &symbols(&b), true), 0.0);
    assert_eq!(ratio(&symbols(&a), &symbols(&b), false), 0.5);
    // Where the first ones are equal they are a block all the same.
    let same = "a".repeat(300);
    assert_eq!(listed(&same, &same, true), [(Tag::Equal, 0, 300, 0, 300)]);
}

#[test]
fn the_ratio_of_nothing_is_1() {
    assert_eq!(ratio(&[], &[], true), 1.0);
    assert_eq!(ratio(&[], &[1], true), 0.0);
}

fn root(row: usize, lines: &[&str]) -> Root {
    let source = lines.join("\n");
    let n = source.len() as i64;
    Root {
        row,
        edit_type: "add".into(),
        lines: lines.iter().map(|line| line.to_string()).collect(),
        source,
        chars: (10, 10 + n),
        tokens: (2, 2 + n / 2),
    }
}

#[test]
fn a_group_by_hand() {
    let roots = [
        root(0, &["total = 0", "return sum(prices)"]),
        root(1, &["check(prices, tax, country)", "return sum(prices)"]),
        root(2, &["while True:", "pass"]),
    ];
    let found = anchors(&[&roots[..]], &Settings::default()).unwrap().remove(0);
    // The equal line of rows 0 and 1; what stands before it is replaced by what is not similar.
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].preview, "return sum(prices)");
    assert_eq!(found[0].mean_size, 1.0);
    // (1 - e^(-1/8))²
    assert_eq!(found[0].gs, (1.0 - (-0.125_f64).exp()) * (1.0 - (-0.125_f64).exp()));
    let places: Vec<_> = found[0]
        .occurrences
        .iter()
        .map(|one| (one.root, one.lines, one.chars, one.tokens))
        .collect();
    // 28 characters in 14 tokens: from 10 to 28; 46 in 23: from 28 to 46.
    assert_eq!(places, [(0, (1, 2), (20, 38), (7, 16)), (1, (1, 2), (38, 56), (16, 25))]);
    let nothing = anchors(&[&roots[2..]], &Settings::default()).unwrap();
    assert_eq!(nothing, [vec![]]);
}

#[test]
fn groupability_has_three_forms() {
    let with = |form| Settings { phi: form, psi: form, ..Settings::default() };
    assert_eq!(groupability(4.0, 5, &with(Form::Linear)), 0.5 * (4.0 / 7.0));
    assert_eq!(groupability(8.0, 8, &with(Form::Log)), 1.0);
    assert_eq!(groupability(4.0, 1, &with(Form::Saturating)), 0.0);
    assert_eq!(Form::from_name("linear"), Some(Form::Linear));
    assert_eq!(Form::from_name("square"), None);
}

#[test]
fn clusters_join_the_first_that_is_similar() {
    // "abcd" shares 3 of 4 characters with "bcde" and with "zabc": 0.75.
    assert_eq!(refine(&["abcd", "bcde", "zabc", "abcd"], 0.75), [0, 0, 0, 0]);
    assert_eq!(refine(&["abcd", "bcde", "zabc", "abcd"], 0.76), [0, 1, 2, 0]);
    assert_eq!(refine(&["abcd", "abcd", "bcde"], 1.0), [0, 0, 1]);
}

#[test]
fn sums_are_numpys() {
    let values: Vec<f64> = (1..12).map(|i| 0.1 * f64::from(i)).collect();
    // One after the other they make 0.6000000000000001.
    assert_eq!(mean(&values), 0.6);
    assert_eq!(values.iter().sum::<f64>() / 11.0, 0.6000000000000001);
    assert_eq!(baselined(&values, 1e-6, true)[1], -0.39999999999999997);
    assert_eq!(baselined(&values, 1e-6, false)[0], -1.581133830100001);
    assert_eq!(baselined(&[0.0, 1.0], 1e-6, true), [-0.5, 0.5]);
    assert_eq!(baselined(&[3.0], 1e-6, false), [0.0]);
    assert_eq!(mean(&[]), 0.0);
}

#[test]
fn a_token_takes_the_highest_and_of_equal_ones_the_first() {
    let unit = |row, tokens, gs, advantage, kind| Unit { row, tokens, gs, advantage, kind };
    let units = [
        unit(0, (0, 3), 0.5, 1.0, 0),
        unit(0, (1, 9), 0.7, 2.0, 1),
        unit(0, (2, 4), 0.7, 3.0, 0),
        unit(1, (-1, 2), 0.9, 4.0, 0),
        unit(1, (3, 3), 0.9, 5.0, 0),
        unit(2, (0, 2), 0.9, 6.0, 2),
    ];
    let mut to = [0.0; 8];
    let filled = fill(&units, 4, &mut to);
    assert_eq!(to, [1.0, 2.0, 2.0, 2.0, 0.0, 0.0, 0.0, 0.0]);
    assert_eq!(filled.tokens, [1, 3, 0]);
}

#[test]
fn a_threshold_that_is_no_number_is_refused() {
    let settings = Settings { sim_thresh: f64::NAN, ..Settings::default() };
    let error = anchors::<Vec<Root>>(&[], &settings).unwrap_err().to_string();
    assert_eq!(error, "opcodes: `sim_thresh` is NaN; it must be a finite number");
}
