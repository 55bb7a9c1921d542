//! Which tokens an occurrence owns: public bug cases and small texts worked out by hand.

use hunkwise::advantage::{Cover, SequenceCredit, TokenSpan, dense_ragged, project};
use hunkwise::error::Place;
use hunkwise::rollout::{Sequence, Tokens, Turn};
use hunkwise::{Device, Error};

fn sequence(text: &str, byte_ends: &[u32]) -> Sequence {
    Sequence {
        text: text.as_bytes().to_vec(),
        tokens: Some(Tokens { byte_ends: byte_ends.to_vec(), mask: vec![true; byte_ends.len()] }),
        turns: vec![Turn { bytes: 0..text.len(), reward: None, observation: None }],
        first_turn: 0,
        place: Place::new("rollouts.jsonl", 7),
    }
}

fn cover(bytes: std::ops::Range<usize>, member: u32, advantage: f32, score: f64) -> Cover {
    Cover { bytes, member, advantage, anchor: 10 + member, score }
}

fn spans(credit: &SequenceCredit) -> Vec<(std::ops::Range<u32>, f32, Option<u32>)> {
    credit
        .token_spans
        .iter()
        .map(|span| (span.tokens.clone(), span.advantage, span.anchor))
        .collect()
}

#[test]
fn case_23_all_tokens_of_a_split_character_and_no_empty_token() {
    // i, space, three bytes of the arrow, space, j.
    let arrow = sequence("i ⭢ j", &[1, 2, 3, 4, 5, 6, 7]);
    let credit = project(&Device::cpu(), &arrow, 0.0, &[cover(2..5, 0, 1.0, 1.0)], None).unwrap();
    assert_eq!(spans(&credit), [(2..5, 1.0, Some(10))]);
    // An empty prefix token, then both characters in one: bytes 0..3 are the first of them.
    let chinese = sequence("中文", &[0, 6]);
    let credit = project(&Device::cpu(), &chinese, 0.0, &[cover(0..3, 0, 1.0, 1.0)], None).unwrap();
    assert_eq!(spans(&credit), [(1..2, 1.0, Some(10))]);
}

#[test]
fn case_25_offsets_are_bytes_and_may_fall_inside_a_character() {
    // "cd" is at character 5 and byte 9.
    let quotes = sequence("“ab” cd", &[3, 5, 8, 9, 11]);
    let credit = project(&Device::cpu(), &quotes, 0.0, &[cover(9..11, 0, 1.0, 1.0)], None).unwrap();
    assert_eq!(spans(&credit), [(4..5, 1.0, Some(10))]);
    let rocket = sequence("🚀x", &[4, 5]);
    let credit = project(&Device::cpu(), &rocket, 0.0, &[cover(4..5, 0, 1.0, 1.0)], None).unwrap();
    assert_eq!(spans(&credit), [(1..2, 1.0, Some(10))]);
    // Byte 1 is inside the first quote; bytes past the text are an error with the place.
    let inside = project(&Device::cpu(), &quotes, 0.0, &[cover(1..2, 0, 1.0, 1.0)], None).unwrap();
    assert_eq!(inside.byte_spans[0].bytes, 1..2);
    let error =
        project(&Device::cpu(), &quotes, 0.0, &[cover(9..12, 0, 1.0, 1.0)], None).unwrap_err();
    assert_eq!(
        error.to_string(),
        "rollouts.jsonl:7: a cover has the bytes 9..12 of a text of 11 bytes"
    );
}

#[test]
fn case_26_the_sampled_tokens_are_the_truth() {
    let sampled = sequence("hello", &[2, 5]);
    let credit = project(&Device::cpu(), &sampled, 0.5, &[cover(0..5, 0, 1.0, 1.0)], None).unwrap();
    assert_eq!(spans(&credit), [(0..2, 1.0, Some(10))]);
    assert_eq!(credit.dense(sampled.tokens.as_ref().unwrap()).unwrap(), [1.5, 1.5]);
    // One token from encoding the text again: an error, no padding.
    let again = Tokens { byte_ends: vec![5], mask: vec![true] };
    assert!(matches!(credit.dense(&again), Err(Error::Shape { .. })));
    let mut short = sampled.clone();
    short.tokens = Some(Tokens { byte_ends: vec![2, 5], mask: vec![true] });
    let error = project(&Device::cpu(), &short, 0.5, &[], None).unwrap_err();
    assert!(error.to_string().contains("2 tokens and 1 mask entries"), "{error}");
}

#[test]
fn case_27_a_token_on_a_border_has_one_owner() {
    let text = sequence("foo()\n+x = 1\n+y\n", &[4, 6, 8, 14, 16]);
    let covers = [cover(6..13, 0, 1.0, 0.5), cover(13..16, 1, -1.0, 0.5)];
    let credit = project(&Device::cpu(), &text, 0.0, &covers, None).unwrap();
    assert_eq!(spans(&credit), [(2..4, 1.0, Some(10)), (4..5, -1.0, Some(11))]);
}

#[test]
fn equal_overlap_goes_to_the_earlier_occurrence() {
    let text = sequence("abcdef", &[6]);
    for (left, right) in [(0, 1), (1, 0)] {
        let covers = [cover(0..3, left, 1.0, 0.1), cover(3..6, right, 2.0, 0.9)];
        let credit = project(&Device::cpu(), &text, 0.0, &covers, None).unwrap();
        assert_eq!(spans(&credit), [(0..1, 1.0, Some(10 + left))]);
    }
}

#[test]
fn pieces_of_one_occurrence_are_added_up() {
    // Member 0 has bytes 0..2 and 4..6 of the token, member 1 has 2..4 and loses, though each piece is as long.
    let text = sequence("abcdef", &[6]);
    let covers = [cover(2..4, 1, 2.0, 0.9), cover(0..2, 0, 1.0, 0.1), cover(4..6, 0, 1.0, 0.1)];
    let credit = project(&Device::cpu(), &text, 0.0, &covers, None).unwrap();
    assert_eq!(spans(&credit), [(0..1, 1.0, Some(10))]);
    let bytes: Vec<_> =
        credit.byte_spans.iter().map(|span| (span.bytes.clone(), span.advantage)).collect();
    assert_eq!(bytes, [(0..2, 1.0), (2..4, 2.0), (4..6, 1.0)]);
}

#[test]
fn the_larger_score_has_the_byte() {
    let text = sequence("abcdef", &[1, 2, 3, 4, 5, 6]);
    let covers = [cover(0..6, 0, 1.0, 0.2), cover(2..4, 1, 2.0, 0.7), cover(3..5, 2, 3.0, 0.5)];
    let credit = project(&Device::cpu(), &text, 0.0, &covers, None).unwrap();
    let expected = [
        (0..2, 1.0, Some(10)),
        (2..4, 2.0, Some(11)),
        (4..5, 3.0, Some(12)),
        (5..6, 1.0, Some(10)),
    ];
    assert_eq!(spans(&credit), expected);
}

#[test]
fn both_zeros_are_one_score() {
    let text = sequence("abc", &[1, 2, 3]);
    for (left, right) in [(0.0, -0.0), (-0.0, 0.0)] {
        let covers = [cover(0..2, 0, 1.0, left), cover(1..3, 1, 2.0, right)];
        let credit = project(&Device::cpu(), &text, 0.0, &covers, None).unwrap();
        assert_eq!(spans(&credit), [(0..2, 1.0, Some(10)), (2..3, 2.0, Some(11))]);
    }
}

#[test]
fn mask_holes_split_spans_and_only_trained_tokens_have_credit() {
    let mut text = sequence("abcdef", &[1, 2, 3, 4, 5, 6, 6, 6]);
    text.tokens.as_mut().unwrap().mask = vec![true, true, false, true, true, true, true, false];
    let credit = project(&Device::cpu(), &text, 0.25, &[cover(1..5, 0, 1.0, 1.0)], None).unwrap();
    assert_eq!(spans(&credit), [(1..2, 1.0, Some(10)), (3..5, 1.0, Some(10))]);
    // The seventh token is empty and trained, the eighth is padding.
    let dense = credit.dense(text.tokens.as_ref().unwrap()).unwrap();
    assert_eq!(dense, [0.25, 1.25, 0.0, 1.25, 1.25, 0.25, 0.25, 0.0]);
}

#[test]
fn step_advantages_stand_on_the_tokens_of_their_turn() {
    // Turn, tool output, turn; each turn ends with an empty end-of-turn token.
    let mut text = sequence("aabbcc", &[2, 2, 4, 6, 6]);
    text.tokens.as_mut().unwrap().mask = vec![true, true, false, true, true];
    let turn = |bytes| Turn { bytes, reward: None, observation: None };
    text.turns = vec![turn(0..2), turn(4..6)];
    let covers = [cover(5..6, 0, 1.0, 1.0)];
    let credit = project(&Device::cpu(), &text, 0.5, &covers, Some(&[0.25, -2.0])).unwrap();
    let expected = [(0..2, 0.25, None), (3..4, -1.0, Some(10)), (4..5, -2.0, None)];
    assert_eq!(spans(&credit), expected);
    assert_eq!(credit.dense(text.tokens.as_ref().unwrap()).unwrap(), [0.75, 0.75, 0.0, -0.5, -1.5]);
    let bytes: Vec<_> =
        credit.byte_spans.iter().map(|span| (span.bytes.clone(), span.advantage)).collect();
    assert_eq!(bytes, [(0..2, 0.25), (4..5, -2.0), (5..6, -1.0)]);
    // Without step advantages the empty tokens have the episode advantage alone.
    let plain = project(&Device::cpu(), &text, 0.5, &covers, None).unwrap();
    assert_eq!(plain.dense(text.tokens.as_ref().unwrap()).unwrap(), [0.5, 0.5, 0.0, 1.5, 0.5]);
}

#[test]
fn text_without_tokens_has_byte_spans() {
    let mut text = sequence("abc", &[3]);
    text.tokens = None;
    let credit = project(&Device::cpu(), &text, 0.5, &[cover(1..2, 0, 1.0, 1.0)], None).unwrap();
    assert_eq!(credit.byte_spans[0].bytes, 1..2);
    assert!(credit.token_spans.is_empty());
    let tokens = Tokens { byte_ends: vec![3], mask: vec![true] };
    assert!(credit.dense(&tokens).is_err());
    // Spans that someone else made.
    let falling = std::ops::Range { start: 1, end: 0 };
    for odd in [[1..2, 0..1], [5..7, 0..1], [falling, 0..1]] {
        let token_spans =
            odd.map(|tokens| TokenSpan { tokens, advantage: 1.0, anchor: None }).into();
        let credit = SequenceCredit { n_tokens: Some(1), token_spans, ..SequenceCredit::default() };
        assert!(matches!(credit.dense(&tokens), Err(Error::Shape { .. })));
    }
}

#[test]
fn ragged_batches_are_one_array() {
    let (a, b) = (sequence("ab", &[1, 2]), sequence("", &[]));
    let credit_a = project(&Device::cpu(), &a, 0.5, &[cover(1..2, 0, 1.0, 1.0)], None).unwrap();
    let credit_b = project(&Device::cpu(), &b, 0.25, &[], None).unwrap();
    let tokens =
        [a.tokens.as_ref().unwrap(), b.tokens.as_ref().unwrap(), a.tokens.as_ref().unwrap()];
    let credits = [credit_a.clone(), credit_b, credit_a];
    let (values, offsets) = dense_ragged(&credits, &tokens).unwrap();
    assert_eq!(values, [0.5, 1.5, 0.5, 1.5]);
    assert_eq!(offsets, [0, 2, 2, 4]);
    assert!(dense_ragged(&credits, &tokens[..2]).is_err());
}

#[test]
fn what_does_not_fit_is_refused_with_its_place() {
    let text = sequence("abc", &[1, 3]);
    let refused = |sequence: &Sequence, episode: f32, covers: &[Cover], turns: Option<&[f32]>| {
        let error =
            project(&Device::cpu(), sequence, episode, covers, turns).unwrap_err().to_string();
        assert!(error.starts_with("rollouts.jsonl:7: "), "{error}");
        error
    };
    assert!(refused(&text, f32::NAN, &[], None).contains("episode advantage is NaN"));
    assert!(refused(&text, 0.0, &[cover(0..1, 0, f32::INFINITY, 1.0)], None).contains("finite"));
    let apart = [cover(0..1, 0, 1.0, 1.0), cover(2..3, 0, 2.0, 1.0)];
    assert!(refused(&text, 0.0, &apart, None).contains("pieces of member 0 differ"));
    assert!(
        refused(&text, f32::MAX, &[cover(0..1, 0, f32::MAX, 1.0)], None).contains("beyond f32")
    );
    assert!(refused(&text, 0.0, &[], Some(&[1.0, 2.0])).contains("2 step advantages for 1 turns"));
    for ends in [vec![2, 1], vec![1, 2]] {
        let mut odd = text.clone();
        odd.tokens.as_mut().unwrap().byte_ends = ends;
        assert!(
            refused(&odd, 0.0, &[], None).contains("byte-ends must not fall and must end at 3")
        );
    }
}
