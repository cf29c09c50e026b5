//! Protocol Buffers on the wire: fields are read in place, without a copy, and nothing is kept that nobody asked for.
//! So an answer, however odd, needs no more memory than its own bytes.

/// Bytes that are no message, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Malformed(pub(super) &'static str);

/// The value of a field.
#[derive(Clone, Copy, Debug)]
pub(super) enum Value<'a> {
    /// A number of variable length, or of 32 or 64 bits.
    Number(u64),
    /// A text, bytes or a message.
    Bytes(&'a [u8]),
}

impl<'a> Value<'a> {
    pub(super) fn number(self) -> Result<u64, Malformed> {
        match self {
            Self::Number(number) => Ok(number),
            Self::Bytes(_) => Err(Malformed("bytes in place of a number")),
        }
    }

    pub(super) fn number32(self) -> Result<u32, Malformed> {
        u32::try_from(self.number()?).map_err(|_| Malformed("a number that is too large"))
    }

    pub(super) fn flag(self) -> Result<bool, Malformed> {
        self.number().map(|number| number != 0)
    }

    pub(super) fn bytes(self) -> Result<&'a [u8], Malformed> {
        match self {
            Self::Bytes(bytes) => Ok(bytes),
            Self::Number(_) => Err(Malformed("a number in place of bytes")),
        }
    }

    pub(super) fn text(self) -> Result<&'a str, Malformed> {
        std::str::from_utf8(self.bytes()?).map_err(|_| Malformed("a text that is not UTF-8"))
    }
}

/// The fields of a message, in the order in which they were written.
#[derive(Clone, Debug)]
pub(super) struct Fields<'a> {
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    pub(super) fn of(message: &'a [u8]) -> Self {
        Self { rest: message }
    }

    /// The number of the next field and its value.
    pub(super) fn next(&mut self) -> Result<Option<(u64, Value<'a>)>, Malformed> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let key = varint(&mut self.rest)?;
        let value = match key & 7 {
            0 => Value::Number(varint(&mut self.rest)?),
            1 => Value::Number(u64::from_le_bytes(array(&mut self.rest)?)),
            2 => {
                let n = varint(&mut self.rest)?;
                Value::Bytes(take(&mut self.rest, n)?)
            }
            5 => Value::Number(u32::from_le_bytes(array(&mut self.rest)?).into()),
            _ => return Err(Malformed("a field of no known kind")),
        };
        Ok(Some((key >> 3, value)))
    }
}

fn take<'a>(rest: &mut &'a [u8], n: u64) -> Result<&'a [u8], Malformed> {
    let n =
        usize::try_from(n).ok().filter(|&n| n <= rest.len()).ok_or(Malformed("an end that is missing"))?;
    let (taken, after) = rest.split_at(n);
    *rest = after;
    Ok(taken)
}

fn array<const N: usize>(rest: &mut &[u8]) -> Result<[u8; N], Malformed> {
    take(rest, N as u64)?.try_into().map_err(|_| Malformed("an end that is missing"))
}

/// Seven bits in each byte, the lowest first; the last byte has none above.
fn varint(rest: &mut &[u8]) -> Result<u64, Malformed> {
    let mut number = 0_u64;
    for shift in (0..70).step_by(7) {
        let [byte] = array(rest)?;
        if shift == 63 && byte > 1 {
            break;
        }
        number |= u64::from(byte & 0x7F) << shift;
        if byte < 0x80 {
            return Ok(number);
        }
    }
    Err(Malformed("a number that is too long"))
}

/// A message that follows its length, taken from the beginning of `rest`.
pub(super) fn delimited<'a>(rest: &mut &'a [u8]) -> Result<&'a [u8], Malformed> {
    let n = varint(rest)?;
    take(rest, n)
}

/// The length of a delimited message and where it begins, or `None` if that is not there yet.
pub(super) fn delimiter(buffer: &[u8]) -> Result<Option<(u64, usize)>, Malformed> {
    let mut rest = buffer;
    match varint(&mut rest) {
        Ok(n) => Ok(Some((n, buffer.len() - rest.len()))),
        Err(_) if buffer.len() < 10 => Ok(None),
        Err(error) => Err(error),
    }
}

/// Writes a message, field by field.
#[derive(Clone, Debug, Default)]
pub(super) struct Writer {
    data: Vec<u8>,
}

impl Writer {
    fn varint(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.data.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.data.push(number as u8);
    }

    pub(super) fn number(mut self, field: u64, number: u64) -> Self {
        self.varint(field << 3);
        self.varint(number);
        self
    }

    /// A number that may be negative, in the encoding that is short for those near zero.
    pub(super) fn signed(self, field: u64, number: i32) -> Self {
        self.number(field, u64::from((number << 1 ^ number >> 31) as u32))
    }

    pub(super) fn bytes(mut self, field: u64, bytes: &[u8]) -> Self {
        self.varint(field << 3 | 2);
        self.varint(bytes.len() as u64);
        self.data.extend_from_slice(bytes);
        self
    }

    pub(super) fn text(self, field: u64, text: &str) -> Self {
        self.bytes(field, text.as_bytes())
    }

    pub(super) fn message(self, field: u64, message: &Self) -> Self {
        self.bytes(field, &message.data)
    }

    /// Appends the message after its length.
    pub(super) fn delimited_into(&self, out: &mut Vec<u8>) {
        let mut length = Self::default();
        length.varint(self.data.len() as u64);
        out.extend_from_slice(&length.data);
        out.extend_from_slice(&self.data);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let inner = Writer::default().text(1, "größe").number(2, u64::MAX);
        let message = Writer::default().signed(3, -3).signed(4, i32::MIN).message(5, &inner).number(6, 0);
        let mut out = Vec::new();
        message.delimited_into(&mut out);
        out.push(99);
        let mut rest = out.as_slice();
        let mut fields = Fields::of(delimited(&mut rest).unwrap());
        let mut next = || fields.next().unwrap().unwrap();
        let (number, value) = next();
        assert_eq!((number, value.number()), (3, Ok(5)));
        assert_eq!(next().1.number(), Ok(u64::from(u32::MAX)));
        let mut inner = Fields::of(next().1.bytes().unwrap());
        assert_eq!(inner.next().unwrap().unwrap().1.text(), Ok("größe"));
        assert_eq!(inner.next().unwrap().unwrap().1.number(), Ok(u64::MAX));
        assert!(inner.next().unwrap().is_none());
        assert_eq!(next().1.flag(), Ok(false));
        assert!(fields.next().unwrap().is_none());
        assert_eq!(rest, [99]);
    }

    #[test]
    fn damage_is_an_error() {
        let cases: [&[u8]; 7] = [
            &[0x08],
            &[0x08, 0xFF],
            &[0x0A, 0x05, 1, 2],
            &[0x09, 1, 2, 3],
            &[0x0B],
            &[0x08, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x02],
            &[0x0A, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x01],
        ];
        for case in cases {
            assert!(Fields::of(case).next().is_err(), "{case:?}");
        }
        assert_eq!(delimiter(&[0x80]), Ok(None));
        assert_eq!(delimiter(&[0x80, 1, 7]), Ok(Some((128, 2))));
        assert!(delimiter(&[0x80; 10]).is_err());
    }
}
