from cells.files import FileError, quote, read_rows, write_contents, write_values
from tests.helpers import refused, same, sheet_of


def test_fields_and_rows():
    same(read_rows("a,b\nc,d\n"), [["a", "b"], ["c", "d"]])


def test_the_last_line_needs_no_end():
    same(read_rows("a,b\nc"), [["a", "b"], ["c"]])


def test_line_ends_of_every_kind():
    same(read_rows("a\r\nb\rc\nd"), [["a"], ["b"], ["c"], ["d"]])


def test_empty_fields():
    same(read_rows(",a,\n\n,"), [["", "a", ""], [""], ["", ""]])


def test_blanks_around_a_field_go():
    same(read_rows(" a , b "), [["a", "b"]])


def test_quoted_fields():
    same(read_rows('"a,b","c ""d""",e'), [["a,b", 'c "d"', "e"]])
    same(read_rows('"two\nlines",x'), [["two\nlines", "x"]])


def test_a_quoted_field_without_an_end():
    same(refused(read_rows, 'a\nb,"c\nd', error=FileError), "line 2: a quoted field has no end")


def test_something_behind_a_quoted_field():
    same(refused(read_rows, '"a"b', error=FileError), "line 1: 'b' behind a quoted field")


def test_a_mark_at_the_beginning_is_left_out():
    same(read_rows("\ufeffa"), [["a"]])


def test_fields_are_quoted_where_they_must_be():
    same([quote(text) for text in ("a", "a,b", 'a"b', "a\nb")], ["a", '"a,b"', '"a""b"', '"a\nb"'])


def test_a_sheet_written():
    sheet = sheet_of('1|=A1*2|x, y\n|=A1/0|="a""b"')
    same(write_contents(sheet), '1,=A1*2,"x, y"\n,=A1/0,"=""a""""b"""\n')
    same(write_values(sheet), '1,2,"x, y"\n,#DIV/0!,"a""b"\n')


def test_an_empty_sheet_written():
    same(write_contents(sheet_of("")), "")
