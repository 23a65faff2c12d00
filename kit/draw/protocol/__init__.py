"""The checkpoint protocol on one page: its rules as data, and the sheet that is drawn from them."""
