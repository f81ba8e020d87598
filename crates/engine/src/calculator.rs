//! The `calculator` tool: arithmetic and nothing else.

use serde_json::Value;

/// Nested parentheses and signs; deeper is refused instead of overflowing the stack.
const MAX_DEPTH: usize = 64;
const MAX_LENGTH_BYTES: usize = 1000;

/// Evaluates `+ - * / % ^` (also `**`), signs and parentheses.
pub fn evaluate(expression: &str) -> Result<f64, String> {
    if expression.len() > MAX_LENGTH_BYTES {
        return Err(format!(
            "the expression is longer than {MAX_LENGTH_BYTES} bytes"
        ));
    }
    let mut parser = Parser {
        rest: expression.trim_start(),
        depth: 0,
    };
    let value = parser.sum()?;
    match parser.rest.chars().next() {
        Some(unexpected) => Err(format!("unexpected '{unexpected}'")),
        None if value.is_finite() => Ok(value),
        None => Err("the result is not a finite number".to_owned()),
    }
}

/// Whole numbers without a decimal point, as a person would write them.
pub fn shown(value: f64) -> Value {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    if value.fract() == 0.0 && value.abs() < EXACT {
        Value::from(value as i64)
    } else {
        Value::from(value)
    }
}

struct Parser<'a> {
    rest: &'a str,
    depth: usize,
}

impl Parser<'_> {
    fn sum(&mut self) -> Result<f64, String> {
        let mut value = self.product()?;
        loop {
            if self.take("+") {
                value += self.product()?;
            } else if self.take("-") {
                value -= self.product()?;
            } else {
                return Ok(value);
            }
        }
    }

    fn product(&mut self) -> Result<f64, String> {
        let mut value = self.signed()?;
        loop {
            if self.take("*") {
                value *= self.signed()?;
            } else if self.take("/") {
                value /= self.divisor()?;
            } else if self.take("%") {
                value %= self.divisor()?;
            } else {
                return Ok(value);
            }
        }
    }

    fn divisor(&mut self) -> Result<f64, String> {
        match self.signed()? {
            0.0 => Err("division by zero".to_owned()),
            value => Ok(value),
        }
    }

    fn signed(&mut self) -> Result<f64, String> {
        self.nested(|parser| {
            if parser.take("-") {
                return Ok(-parser.signed()?);
            }
            if parser.take("+") {
                return parser.signed();
            }
            let base = parser.atom()?;
            if parser.take("**") || parser.take("^") {
                Ok(base.powf(parser.signed()?))
            } else {
                Ok(base)
            }
        })
    }

    fn atom(&mut self) -> Result<f64, String> {
        if self.take("(") {
            let value = self.nested(Self::sum)?;
            return if self.take(")") {
                Ok(value)
            } else {
                Err("missing ')'".to_owned())
            };
        }
        let length = self.number_length();
        let (number, rest) = self.rest.split_at(length);
        if number.is_empty() {
            let found = self
                .rest
                .chars()
                .next()
                .map_or("the end".to_owned(), |c| format!("'{c}'"));
            return Err(format!("expected a number, found {found}"));
        }
        self.rest = rest.trim_start();
        number
            .parse()
            .map_err(|_| format!("not a number: {number}"))
    }

    /// Digits, a point, and an exponent that really is one.
    fn number_length(&self) -> usize {
        let bytes = self.rest.as_bytes();
        let digits = |from: usize| {
            from + bytes
                .iter()
                .skip(from)
                .take_while(|b| b.is_ascii_digit())
                .count()
        };
        let mut end = digits(0);
        if bytes.get(end) == Some(&b'.') {
            end = digits(end + 1);
        }
        if end > 0 && matches!(bytes.get(end), Some(b'e' | b'E')) {
            let sign = usize::from(matches!(bytes.get(end + 1), Some(b'+' | b'-')));
            let exponent = end + 1 + sign;
            if digits(exponent) > exponent {
                end = digits(exponent);
            }
        }
        end
    }

    fn take(&mut self, token: &str) -> bool {
        // `*` must not eat the first half of `**`.
        if token == "*" && self.rest.starts_with("**") {
            return false;
        }
        match self.rest.strip_prefix(token) {
            Some(rest) => {
                self.rest = rest.trim_start();
                true
            }
            None => false,
        }
    }

    fn nested(
        &mut self,
        parse: impl FnOnce(&mut Self) -> Result<f64, String>,
    ) -> Result<f64, String> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err("the expression is nested too deeply".to_owned());
        }
        let value = parse(self);
        self.depth -= 1;
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_have_their_values() {
        let cases = [
            ("1 + 2 * 3", "7"),
            ("(1 + 2) * 3", "9"),
            ("2 ^ 3 ^ 2", "512"),
            ("2 ** 10", "1024"),
            ("-2 ^ 2", "-4"),
            ("7 % 4 / 2", "1.5"),
            ("1e3 + .5", "1000.5"),
            (" 10/4 ", "2.5"),
        ];
        for (expression, expected) in cases {
            assert_eq!(
                shown(evaluate(expression).unwrap()).to_string(),
                expected,
                "{expression}"
            );
        }
    }

    #[test]
    fn nonsense_is_an_error_and_never_a_crash() {
        let deep = "(".repeat(500);
        let signs = "-".repeat(900);
        let cases = [
            "", "1 +", "(1", "1)", "1/0", "5 % 0", "10^400", "abc", "1;2", "2**", "é", &deep,
            &signs,
        ];
        for expression in cases {
            assert!(evaluate(expression).is_err(), "{expression}");
        }
    }
}
