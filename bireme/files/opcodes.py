"""The opcodes of pickle that plain data and arrays need, and the limits of what is read: Paddle's files are pickles."""

import collections

PROTO, FRAME, STOP = 0x80, 0x95, 0x2E
MARK, POP, POP_MARK, DUP = 0x28, 0x30, 0x31, 0x32
NONE, NEWTRUE, NEWFALSE = 0x4E, 0x88, 0x89
BININT, BININT1, BININT2, LONG1, LONG4, BINFLOAT = 0x4A, 0x4B, 0x4D, 0x8A, 0x8B, 0x47
BINUNICODE, SHORT_BINUNICODE, BINUNICODE8 = 0x58, 0x8C, 0x8D
BINSTRING, SHORT_BINSTRING = 0x54, 0x55
BINBYTES, SHORT_BINBYTES, BINBYTES8, BYTEARRAY8 = 0x42, 0x43, 0x8E, 0x96
EMPTY_LIST, APPEND, APPENDS = 0x5D, 0x61, 0x65
EMPTY_DICT, SETITEM, SETITEMS = 0x7D, 0x73, 0x75
EMPTY_SET, ADDITEMS, FROZENSET = 0x8F, 0x90, 0x91
EMPTY_TUPLE, TUPLE, TUPLE1, TUPLE2, TUPLE3 = 0x29, 0x74, 0x85, 0x86, 0x87
GLOBAL, STACK_GLOBAL, REDUCE, BUILD, NEWOBJ = 0x63, 0x93, 0x52, 0x62, 0x81
BINGET, LONG_BINGET, BINPUT, LONG_BINPUT, MEMOIZE = 0x68, 0x6A, 0x71, 0x72, 0x94

# element types as NumPy spells them in such files
CODES = ("b1", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16")

# Dtypes without a code of NumPy's are written as integers of the same size, with their name in the metadata of the
# dtype: Paddle reads such a file as it reads its own (which lose the dtype), and we get the dtype back.
TAG = "bireme"

NAME_TABLE = "StructuredToParameterName@@"
CUT_TABLE = "UnpackBigParamInfor@@"

MAX_DEPTH = 100
# by memory; others weigh 1
WEIGHTS: dict[type, int] = {dict: 3, set: 4, frozenset: 4, collections.OrderedDict: 5}
MAX_PARTS = 4_000_000  # of containers and of what arrays are described with
MAX_STEPS = 400_000_000
MAX_UNFOLDED = 100_000_000  # of everything, each object as often as it occurs
