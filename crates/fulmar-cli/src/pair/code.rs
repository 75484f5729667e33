//! One-time codes: seven random letters of 5 bits each and a letter that finds a mistake in typing, so that a
//! slip does not use up the only guess.

use std::fmt;
use std::str::FromStr;

/// Crockford's base 32: no I, L, O or U, so that nothing looks like something else.
const LETTERS: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

/// Letters that are drawn: 35 bits, for which there is one guess.
const DRAWN: usize = 7;

/// A code that lets one machine pair with another, once.
#[derive(Clone, PartialEq, Eq)]
pub struct Code([u8; DRAWN]);

/// Not a code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CodeError {
    /// Too short, too long, or with letters that no code has.
    #[error("a code has 8 letters and digits, such as 7k2m-p9xd")]
    Form,
    /// Its letters do not go together.
    #[error("there is a typing mistake in this code; compare it with the one that the other machine shows")]
    Typing,
}

impl Code {
    /// Draws one by the system's generator.
    pub fn draw() -> std::io::Result<Self> {
        let mut bytes = [0; DRAWN];
        getrandom::fill(&mut bytes).map_err(|error| std::io::Error::other(error.to_string()))?;
        Ok(Self(bytes.map(|byte| byte % 32)))
    }

    /// What the key exchange takes for the password.
    pub fn password(&self) -> &[u8] {
        &self.0
    }

    /// Damm's and Verhoeff's codes are for decimals; a weighted sum modulo 31, a prime, finds each changed
    /// letter but a 0 for a Z, and each swap of neighbours.
    fn check(&self) -> u8 {
        let weighted = |(at, letter): (usize, &u8)| (at as u32 + 1) * u32::from(*letter);
        (self.0.iter().enumerate().map(weighted).sum::<u32>() % 31) as u8
    }
}

impl FromStr for Code {
    type Err = CodeError;

    /// In capitals as well, with or without the stroke, and with O, I and L for the digits that they look
    /// like.
    fn from_str(text: &str) -> Result<Self, CodeError> {
        let value = |c: char| {
            let c = match c.to_ascii_lowercase() {
                'o' => '0',
                'i' | 'l' => '1',
                c => c,
            };
            LETTERS.iter().position(|letter| char::from(*letter) == c).map(|at| at as u8)
        };
        let letters = text.chars().filter(|c| !matches!(c, '-' | ' '));
        // One more than there may be is enough to know that it is too long.
        let values: Option<Vec<u8>> = letters.take(DRAWN + 2).map(value).collect();
        let values = values.filter(|values| values.len() == DRAWN + 1).ok_or(CodeError::Form)?;
        let code = Self(std::array::from_fn(|at| values[at]));
        if code.check() == values[DRAWN] { Ok(code) } else { Err(CodeError::Typing) }
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let letter = |value: u8| char::from(LETTERS[usize::from(value % 32)]);
        let (front, back) = self.0.split_at(4);
        front.iter().try_for_each(|&value| write!(f, "{}", letter(value)))?;
        write!(f, "-")?;
        back.iter().try_for_each(|&value| write!(f, "{}", letter(value)))?;
        write!(f, "{}", letter(self.check()))
    }
}

/// A secret: not for logs.
impl fmt::Debug for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Code(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_read_as_people_type_them() {
        for _ in 0..100 {
            let code = Code::draw().unwrap();
            let text = code.to_string();
            assert_eq!((text.len(), text.find('-')), (9, Some(4)), "{text}");
            for typed in [text.clone(), text.to_uppercase(), text.replace('-', ""), text.replace('0', "O")] {
                assert_eq!(typed.parse(), Ok(code.clone()), "{typed}");
            }
            assert_eq!(text.replace('1', "l").replace('0', "o").parse(), Ok(code));
        }
    }

    #[test]
    fn two_codes_are_not_alike() {
        assert_ne!(Code::draw().unwrap(), Code::draw().unwrap());
    }

    /// Every letter changed and every two neighbours swapped, but for the pair that the sum takes for equal.
    #[test]
    fn typing_mistakes_are_found_before_they_cost_the_guess() {
        let code = Code([3, 30, 12, 7, 21, 0, 17]);
        let text: Vec<char> = code.to_string().chars().collect();
        let places: Vec<usize> = (0..text.len()).filter(|&at| text[at] != '-').collect();
        let same = |a: char, b: char| matches!((a, b), ('0', 'z') | ('z', '0'));
        for &at in &places {
            for letter in LETTERS.iter().map(|letter| char::from(*letter)) {
                let mut typed = text.clone();
                typed[at] = letter;
                let read = typed.iter().collect::<String>().parse::<Code>();
                let is_other = letter != text[at] && !same(letter, text[at]);
                assert_eq!(read.is_err(), is_other, "{typed:?}");
            }
        }
        for pair in places[..DRAWN].windows(2).filter(|pair| text[pair[0]] != text[pair[1]]) {
            let mut typed = text.clone();
            typed.swap(pair[0], pair[1]);
            assert_eq!(typed.iter().collect::<String>().parse::<Code>(), Err(CodeError::Typing), "{typed:?}");
        }
    }

    #[test]
    fn anything_else_is_no_code() {
        for text in ["", "-", "7k2m", "7k2m-p9xdd", "7k2m-p9x!", "üüüü-üüüü", &"7".repeat(1 << 20)] {
            assert_eq!(text.parse::<Code>(), Err(CodeError::Form), "{}", text.len());
        }
    }
}
