//! Kafka's encoding of numbers, texts and arrays, in its older form and in the compact one of "flexible" versions.
//!
//! What is read comes from a server, so no count or length in it is believed: an array takes memory only as its elements
//! are there, and a message that ends early, or late, is an error.

/// Bytes that are no answer, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Malformed(pub(super) &'static str);

/// Reads a message from its beginning to its end.
#[derive(Clone, Debug)]
pub(super) struct Reader<'a> {
    rest: &'a [u8],
    /// Lengths are of variable size and one more than they say, and every structure ends with tagged fields.
    is_compact: bool,
}

impl<'a> Reader<'a> {
    pub(super) fn of(message: &'a [u8], is_compact: bool) -> Self {
        Self { rest: message, is_compact }
    }

    fn take(&mut self, n: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.rest.split_at_checked(n).ok_or(Malformed("it ends early"))?;
        self.rest = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        self.take(N)?.try_into().map_err(|_| Malformed("it ends early"))
    }

    pub(super) fn i8(&mut self) -> Result<i8, Malformed> {
        self.array().map(i8::from_be_bytes)
    }

    pub(super) fn i16(&mut self) -> Result<i16, Malformed> {
        self.array().map(i16::from_be_bytes)
    }

    pub(super) fn i32(&mut self) -> Result<i32, Malformed> {
        self.array().map(i32::from_be_bytes)
    }

    pub(super) fn i64(&mut self) -> Result<i64, Malformed> {
        self.array().map(i64::from_be_bytes)
    }

    pub(super) fn flag(&mut self) -> Result<bool, Malformed> {
        self.i8().map(|byte| byte != 0)
    }

    /// Seven bits in each byte, the lowest first; the last byte has none above.
    fn varint(&mut self) -> Result<u32, Malformed> {
        let mut number = 0_u32;
        for shift in (0..35).step_by(7) {
            let [byte] = self.array()?;
            if shift == 28 && byte > 0x0F {
                break;
            }
            number |= u32::from(byte & 0x7F) << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(Malformed("a number in it is too long"))
    }

    /// A length or count, or `None` for what is absent.
    fn length(&mut self, is_text: bool) -> Result<Option<usize>, Malformed> {
        if self.is_compact {
            return Ok(self.varint()?.checked_sub(1).map(|n| n as usize));
        }
        let n = if is_text { self.i16()?.into() } else { self.i32()? };
        match n {
            -1 => Ok(None),
            n => usize::try_from(n).map(Some).map_err(|_| Malformed("a length in it is negative")),
        }
    }

    pub(super) fn optional_text(&mut self) -> Result<Option<String>, Malformed> {
        let Some(n) = self.length(true)? else { return Ok(None) };
        let text = std::str::from_utf8(self.take(n)?).map_err(|_| Malformed("a text in it is not UTF-8"))?;
        Ok(Some(text.to_owned()))
    }

    pub(super) fn text(&mut self) -> Result<String, Malformed> {
        self.optional_text()?.ok_or(Malformed("a text in it is missing"))
    }

    /// Bytes that are thrown away.
    pub(super) fn skip_bytes(&mut self) -> Result<(), Malformed> {
        let n = self.length(false)?.unwrap_or_default();
        self.take(n).map(drop)
    }

    /// An array, which is empty if it is absent.
    pub(super) fn list<T>(
        &mut self,
        mut element: impl FnMut(&mut Self) -> Result<T, Malformed>,
    ) -> Result<Vec<T>, Malformed> {
        let n = self.length(false)?.unwrap_or_default();
        // No element is shorter than a byte.
        if n > self.rest.len() {
            return Err(Malformed("a count in it is larger than the answer"));
        }
        let mut list = Vec::new();
        for _ in 0..n {
            list.push(element(self)?);
        }
        Ok(list)
    }

    /// An array of structures.
    pub(super) fn structures<T>(
        &mut self,
        mut fields: impl FnMut(&mut Self) -> Result<T, Malformed>,
    ) -> Result<Vec<T>, Malformed> {
        self.list(|reader| {
            let found = fields(reader)?;
            reader.skip_tags()?;
            Ok(found)
        })
    }

    /// Passes the tagged fields at the end of a structure. Nobody here needs any.
    pub(super) fn skip_tags(&mut self) -> Result<(), Malformed> {
        if self.is_compact {
            for _ in 0..self.varint()? {
                self.varint()?;
                let n = self.varint()?;
                self.take(n as usize)?;
            }
        }
        Ok(())
    }

    pub(super) fn end(&self) -> Result<(), Malformed> {
        if self.rest.is_empty() { Ok(()) } else { Err(Malformed("it has more than belongs there")) }
    }
}

/// Writes a message.
#[derive(Clone, Debug, Default)]
pub(super) struct Writer {
    pub(super) bytes: Vec<u8>,
    is_compact: bool,
}

impl Writer {
    pub(super) fn new(is_compact: bool) -> Self {
        Self { bytes: Vec::new(), is_compact }
    }

    pub(super) fn i8(&mut self, number: i8) {
        self.bytes.extend(number.to_be_bytes());
    }

    pub(super) fn i16(&mut self, number: i16) {
        self.bytes.extend(number.to_be_bytes());
    }

    pub(super) fn i32(&mut self, number: i32) {
        self.bytes.extend(number.to_be_bytes());
    }

    pub(super) fn flag(&mut self, flag: bool) {
        self.i8(flag.into());
    }

    fn varint(&mut self, mut number: u32) {
        while number >= 0x80 {
            self.bytes.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.bytes.push(number as u8);
    }

    /// What is written here is never as long as a length can say.
    fn length(&mut self, n: Option<usize>, is_text: bool) {
        if self.is_compact {
            self.varint(n.map_or(0, |n| n as u32 + 1));
        } else if is_text {
            self.i16(n.map_or(-1, |n| n.try_into().unwrap_or(i16::MAX)));
        } else {
            self.i32(n.map_or(-1, |n| n.try_into().unwrap_or(i32::MAX)));
        }
    }

    pub(super) fn text(&mut self, text: &str) {
        self.length(Some(text.len()), true);
        self.bytes.extend(text.as_bytes());
    }

    pub(super) fn bytes(&mut self, bytes: &[u8]) {
        self.length(Some(bytes.len()), false);
        self.bytes.extend(bytes);
    }

    /// An array that is absent, which mostly means all.
    pub(super) fn no_list(&mut self) {
        self.length(None, false);
    }

    pub(super) fn list<T>(&mut self, list: &[T], mut element: impl FnMut(&mut Self, &T)) {
        self.length(Some(list.len()), false);
        list.iter().for_each(|item| element(self, item));
    }

    /// An array of structures.
    pub(super) fn structures<T>(&mut self, list: &[T], mut fields: impl FnMut(&mut Self, &T)) {
        self.list(list, |writer, item| {
            fields(writer, item);
            writer.no_tags();
        });
    }

    /// The end of a structure.
    pub(super) fn no_tags(&mut self) {
        if self.is_compact {
            self.varint(0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        for is_compact in [false, true] {
            let mut writer = Writer::new(is_compact);
            writer.i8(-1);
            writer.i16(-2);
            writer.i32(i32::MIN);
            writer.text("größe");
            writer.no_list();
            writer.structures(&[1, 200_000], |writer, &number| writer.i32(number));
            writer.bytes(&[0; 300]);
            writer.flag(true);
            writer.no_tags();
            let mut reader = Reader::of(&writer.bytes, is_compact);
            assert_eq!((reader.i8(), reader.i16(), reader.i32()), (Ok(-1), Ok(-2), Ok(i32::MIN)));
            assert_eq!(reader.text(), Ok("größe".to_owned()));
            assert_eq!(reader.list(Reader::i32), Ok(vec![]));
            assert_eq!(reader.structures(Reader::i32), Ok(vec![1, 200_000]));
            assert_eq!(reader.skip_bytes(), Ok(()));
            assert_eq!(reader.flag(), Ok(true));
            assert_eq!(reader.skip_tags(), Ok(()));
            assert_eq!(reader.end(), Ok(()));
        }
    }

    #[test]
    fn counts_and_lengths_are_not_believed() {
        let huge = |bytes: &[u8], is_compact| Reader::of(bytes, is_compact).list(Reader::i8);
        assert_eq!(
            huge(&[0x7F, 0xFF, 0xFF, 0xFF, 1], false),
            Err(Malformed("a count in it is larger than the answer"))
        );
        assert_eq!(
            huge(&[0xFF, 0xFF, 0xFF, 0xFF, 0x0F], true),
            Err(Malformed("a count in it is larger than the answer"))
        );
        assert_eq!(huge(&[0xFF, 0xFF, 0xFF, 0xFF, 0x1F], true), Err(Malformed("a number in it is too long")));
        assert_eq!(huge(&[0x80, 0, 0, 0], false), Err(Malformed("a length in it is negative")));
        assert_eq!(Reader::of(&[0x7F, 0xFF, 65], false).text(), Err(Malformed("it ends early")));
        assert_eq!(Reader::of(&[2, 0xFF], true).text(), Err(Malformed("a text in it is not UTF-8")));
        assert_eq!(Reader::of(&[0], true).text(), Err(Malformed("a text in it is missing")));
        assert_eq!(
            Reader::of(&[0xFF, 0xFF, 0xFF, 0xFF, 0x0F, 0, 0], true).skip_tags(),
            Err(Malformed("it ends early"))
        );
        assert_eq!(Reader::of(&[1], true).end(), Err(Malformed("it has more than belongs there")));
    }
}
