// The script of the pages.
"use strict";
