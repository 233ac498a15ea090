"""make_safetensors.py - writes safetensors.golden: files that are, or look like, safetensors, and the reference reader's verdict.

Run it with the package safetensors installed: python tests/golden/make_safetensors.py. A line is one file, in five columns with
tabs between: a name; accept or reject; the number in the first eight bytes, or - where the file is the last column and no
more; how many zero bytes of data follow the header; the header, with %XX for every byte that is no plain character.
"""
import os
import struct

from safetensors import deserialize

M = '"__metadata__"'


def entry(dtype="F32", shape="[2]", offsets="[0,8]", more=""):
    return f'{{"dtype":"{dtype}","shape":{shape},"data_offsets":{offsets}{more}}}'


def one(dtype="F32", shape="[2]", offsets="[0,8]", more=""):
    return f'{{"w":{entry(dtype, shape, offsets, more)}}}'


def two(first, second):
    return f'{{"v":{entry(shape="[1]", offsets=first)},"w":{entry(shape="[1]", offsets=second)}}}'


W = entry()
WIDTHS = {"BOOL": 8, "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6, "U8": 8, "I8": 8, "F8_E5M2": 8, "F8_E4M3": 8, "F8_E8M0": 8, "F8_E4M3FNUZ": 8,
          "F8_E5M2FNUZ": 8, "I16": 16, "U16": 16, "F16": 16, "BF16": 16, "I32": 32, "U32": 32, "F32": 32, "C64": 64, "F64": 64,
          "I64": 64, "U64": 64}

# name: (header, bytes of data[, the number before it])
FILES = {
    # the length before the header
    "length_zero": ("", 0), "length_beyond_file": (one(), 8, 4096), "length_one_short": (one() + " ", 7, len(one()) + 9),
    "length_most": ("{}", 0, 100_000_000), "length_over_most": ("{}", 0, 100_000_001), "length_of_64_bits": ("{}", 0, 2**64 - 1),
    "length_negative": ("{}", 0, 2**63), "length_cuts_json": (one(), 8, len(one()) - 1), "length_with_data": ("{}", 1, 3),
    # what stands around the object
    "plain": (one(), 8), "nothing_in_it": ("{}", 0), "spaces_before": ("   " + one(), 8), "spaces_behind": (one() + " " * 13, 8),
    "other_spaces": ("\t\r\n" + one() + "\r\n\t", 8), "zeros_behind": (one() + "\0\0", 8), "form_feed": ("\f" + one(), 8),
    "vertical_tab": ("{\v}", 0), "byte_order_mark": ("\ufeff{}", 0), "two_objects": ("{} {}", 0), "text_behind": (one() + "x", 8),
    "list": ("[]", 0), "null": ("null", 0), "number": ("0", 0), "string": ('"{}"', 0), "true": ("true", 0), "no_end": (one()[:-1], 8),
    "comma_at_end": (one()[:-1] + ",}", 8), "comma_in_entry": ('{"w":' + W[:-1] + ",}}", 8), "no_comma": (f'{{"v":{W}"w":{W}}}', 8),
    "comment": ("{/**/}", 0), "line_comment": ("{}//", 0), "single_quotes": (one().replace('"', "'"), 8), "bare_key": ("{w:1}", 0),
    # characters
    "not_utf8": (b'{"\xfe":' + W.encode() + b"}", 8), "cut_utf8": (b'{"\xe2\x82":' + W.encode() + b"}", 8),
    "overlong_utf8": (b'{"\xc1\x81":' + W.encode() + b"}", 8), "surrogate_in_utf8": (b'{"\xed\xa0\x80":' + W.encode() + b"}", 8),
    "any_script": (f'{{"层.0.вес.😀":{W}}}', 8), "escaped_letter": (f'{{"\\u0077":{W}}}', 8), "escaped_pair": (f'{{"\\ud83d\\ude80":{W}}}', 8),
    "half_a_pair": (f'{{"\\ude80":{W}}}', 8), "bad_escape": (f'{{"\\x77":{W}}}', 8), "raw_newline": (f'{{"a\nb":{W}}}', 8),
    "escaped_newline": (f'{{"a\\nb":{W}}}', 8), "escaped_nul": (f'{{"a\\u0000b":{W}}}', 8), "empty_name": (f'{{"":{W}}}', 8),
    "long_name": (f'{{"{"n" * 4097}":{W}}}', 8), "name_of_4096": (f'{{"{"n" * 4096}":{W}}}', 8),
    # metadata
    "metadata": (f'{{{M}:{{"format":"pt","":""}},"w":{W}}}', 8), "metadata_null": (f'{{{M}:null,"w":{W}}}', 8),
    "metadata_alone": (f"{{{M}:{{}}}}", 0), "metadata_escaped": (f'{{"w":{W},"__\\u006detadata__":{{"a":"b"}}}}', 8),
    "metadata_number": (f'{{{M}:{{"step":10}}}}', 0), "metadata_nothing": (f'{{{M}:{{"a":null}}}}', 0),
    "metadata_object": (f'{{{M}:{{"a":{{}}}}}}', 0), "metadata_list": (f"{{{M}:[]}}", 0), "metadata_string": (f'{{{M}:"a"}}', 0),
    "metadata_twice": (f"{{{M}:{{}},{M}:{{}}}}", 0), "metadata_key_twice": (f'{{{M}:{{"a":"b","a":"c"}}}}', 0),
    "metadata_a_tensor": (f"{{{M}:{W}}}", 8),
    # the description of a tensor
    "tensor_null": ('{"w":null}', 0), "tensor_string": ('{"w":"F32"}', 0), "tensor_list": ('{"w":["F32",[2],[0,8]]}', 8),
    "tensor_empty": ('{"w":{}}', 0), "no_dtype": ('{"w":{"shape":[2],"data_offsets":[0,8]}}', 8),
    "no_shape": ('{"w":{"dtype":"F32","data_offsets":[0,8]}}', 8), "no_offsets": ('{"w":{"dtype":"F32","shape":[2]}}', 8),
    "more_fields": (one(more=',"strides":[1],"note":{"a":[null,1.5e3]}'), 8), "field_twice": (one(more=',"shape":[2]'), 8),
    "field_escaped": (one().replace("shape", "sh\\u0061pe"), 8), "field_deep": (one(more=',"x":' + "[" * 90 + "]" * 90), 8),
    "field_too_deep": (one(more=',"x":' + "[" * 150 + "]" * 150), 8), "field_huge": (one(more=',"x":1e400'), 8),
    "field_nan": (one(more=',"x":NaN'), 8), "field_twice_unknown": (one(more=',"x":1,"x":2'), 8),
    # types
    "type_lower": (one("f32"), 8), "type_unknown": (one("F128", "[1]", "[0,16]"), 16), "type_empty": (one(""), 8),
    "type_number": (one().replace('"F32"', "11"), 8), "type_object": (one().replace('"F32"', '{"F32":null}'), 8),
    "type_null": (one().replace('"F32"', "null"), 8), "half_a_byte": (one("F4", "[5]", "[0,3]"), 3),
    "six_bits": (one("F6_E3M2", "[5]", "[0,4]"), 4),
    **{f"type_{name}": (one(name, "[4]", f"[0,{bits // 2}]"), bits // 2) for name, bits in WIDTHS.items()},
    # shapes
    "scalar": (one(shape="[]", offsets="[0,4]"), 4), "no_elements": (one(shape="[3,0]", offsets="[0,0]"), 0),
    "rank_32": (one("U8", f"[{','.join('1' * 32)}]", "[0,1]"), 1), "rank_33": (one("U8", f"[{','.join('1' * 33)}]", "[0,1]"), 1),
    "shape_negative": (one(shape="[-2]"), 8), "shape_minus_zero": (one(shape="[-0]", offsets="[0,0]"), 0), "shape_float": (one(shape="[2.0]"), 8),
    "shape_power": (one(shape="[2e0]"), 8), "shape_plus": (one(shape="[+2]"), 8), "shape_zeros": (one(shape="[02]"), 8),
    "shape_string": (one(shape='["2"]'), 8), "shape_true": (one(shape="[true]", offsets="[0,4]"), 4), "shape_number": (one(shape="2"), 8),
    "shape_nested": (one(shape="[[2]]"), 8), "shape_65_bits": (one(shape="[18446744073709551616]"), 8),
    "shape_64_bits": (one("U8", "[0,18446744073709551615]", "[0,0]"), 0), "product_over": (one("U8", "[4294967296,4294967296]", "[0,0]"), 0),
    "product_over_then_zero": (one("U8", "[4294967296,4294967296,0]", "[0,0]"), 0), "zero_then_over": (one("U8", "[0,4294967296,4294967296]", "[0,0]"), 0),
    "bits_over": (one("F64", "[1152921504606846976]", "[0,8]"), 8),
    # where the data lies
    "too_small": (one(offsets="[0,7]"), 7), "too_large": (one(offsets="[0,9]"), 9), "offsets_reversed": (one(offsets="[8,0]"), 8),
    "offsets_one": (one(offsets="[8]"), 8), "offsets_three": (one(offsets="[0,8,8]"), 8), "offsets_strings": (one(offsets='["0","8"]'), 8),
    "offsets_floats": (one(offsets="[0.0,8.0]"), 8), "offsets_negative": (one(offsets="[-8,0]"), 8), "offsets_object": (one(offsets='{"0":0}'), 8),
    "hole_first": (one(offsets="[4,12]"), 12), "hole_between": (two("[0,4]", "[8,12]"), 12), "overlap": (two("[0,4]", "[2,6]"), 6),
    "same_place": (two("[0,4]", "[0,4]"), 4), "any_order": (two("[4,8]", "[0,4]"), 8), "data_behind": (one(), 9), "data_cut": (one(), 7),
    "data_without_tensors": ("{}", 8), "empty_at_seam": (f'{{"v":{entry(shape="[0]", offsets="[8,8]")},"w":{W}}}', 8),
    "empty_inside": (f'{{"v":{entry(shape="[0]", offsets="[4,4]")},"w":{W}}}', 8),
    "empty_behind": (f'{{"v":{entry(shape="[0]", offsets="[16,16]")},"w":{W}}}', 8), "odd_place": (f'{{"v":{entry("U8", "[1]", "[0,1]")},"w":{entry("F64", "[1]", "[1,9]")}}}', 9),
    # names twice
    "twice_the_same": (f'{{"w":{W},"w":{W}}}', 8), "twice_the_last_fits": (f'{{"w":{entry(offsets="[8,16]")},"w":{W}}}', 8),
    "twice_side_by_side": (f'{{"w":{W},"w":{entry(offsets="[8,16]")}}}', 16), "twice_escaped": (f'{{"w":{W},"\\u0077":{W}}}', 8),
    # no header at all
    "no_bytes": ("", None), "seven_bytes": ("{}     ", None), "a_pickle": (b"\x80\x02}q\x00.", None), "a_zip": (b"PK\x03\x04" + bytes(26), None),
}


def encoded(header):
    return "".join(chr(b) if 32 < b < 127 and b != ord("%") else f"%{b:02X}" for b in header)


def accepted(content):
    try:
        deserialize(content)
        return True
    except Exception:  # the package's own error, and one of Python's where its binding fails
        return False


def main():
    with open(os.path.join(os.path.dirname(__file__), "safetensors.golden"), "w", encoding="ascii") as file:
        for name, (header, data, *length) in FILES.items():
            header = header.encode() if isinstance(header, str) else header
            number = length[0] if length else len(header)
            content = header if data is None else struct.pack("<Q", number) + header + bytes(data)
            verdict = "accept" if accepted(content) else "reject"
            print(name, verdict, "-" if data is None else number, data or 0, encoded(header), sep="\t", file=file)


if __name__ == "__main__":
    main()
