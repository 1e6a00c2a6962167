// Sources of Paddle's custom operators include this path; what they use of it is in bireme/extension.h.
#pragma once
#include "bireme/extension.h"
