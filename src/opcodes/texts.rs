//! Texts by number: equal texts have equal numbers. Characters are numbered too, in the order in which they appear.

use rustc_hash::FxHashMap;

/// Characters are counted by their number modulo this.
pub(super) const BINS: usize = 128;

/// A text.
#[derive(Debug)]
pub(super) struct Text {
    /// Numbers of its characters.
    pub(super) symbols: Vec<u32>,
    /// How many of its characters fall in each bin.
    pub(super) bins: Box<[u32; BINS]>,
    /// Nothing but white space, as Python sees it.
    pub(super) is_blank: bool,
}

/// Texts of a task.
#[derive(Debug, Default)]
pub(super) struct Texts {
    pub(super) texts: Vec<Text>,
    numbers: FxHashMap<String, u32>,
    characters: FxHashMap<char, u32>,
}

impl Texts {
    /// The number of a text.
    pub(super) fn number(&mut self, text: &str) -> u32 {
        if let Some(&number) = self.numbers.get(text) {
            return number;
        }
        let mut bins = Box::new([0; BINS]);
        let symbols: Vec<u32> = text
            .chars()
            .map(|c| {
                let n = self.characters.len() as u32;
                let symbol = *self.characters.entry(c).or_insert(n);
                bins[symbol as usize % BINS] += 1;
                symbol
            })
            .collect();
        let number = self.texts.len() as u32;
        self.texts.push(Text { symbols, bins, is_blank: text.chars().all(is_space) });
        self.numbers.insert(text.to_owned(), number);
        number
    }

    /// How many characters are known.
    pub(super) fn n_symbols(&self) -> usize {
        self.characters.len()
    }
}

/// What Python's `str.isspace` says: White_Space, and the four separators U+001C to U+001F.
fn is_space(c: char) -> bool {
    c.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&c)
}

#[cfg(test)]
mod tests {
    use super::Texts;

    #[test]
    fn a_separator_is_blank_and_a_zero_width_space_is_not() {
        let mut texts = Texts::default();
        let blank = ["", " \n", "\u{1c}", "\u{85}", "\u{3000}"].map(|text| texts.number(text));
        let full = ["a", "\u{200b}", " x"].map(|text| texts.number(text));
        assert!(blank.iter().all(|&text| texts.texts[text as usize].is_blank));
        assert!(full.iter().all(|&text| !texts.texts[text as usize].is_blank));
        assert_eq!(texts.number(" \n"), blank[1]);
    }
}
