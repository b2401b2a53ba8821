/* Pictures in a terminal, on standard error: the run as it is seen after each step. Three protocols
 * that terminals know; none is a standard.
 *
 *   kitty  graphics protocol of kitty (also Ghostty, WezTerm, Konsole)
 *   iterm  inline images of iTerm2 (also WezTerm)
 *   sixel  DEC's bitmap graphics (foot, mlterm, xterm -ti vt340, ...)
 *
 * The picture stands above the progress line, and the next one takes its place unless a message
 * came in between. */
#ifndef ZOE_PICTURE_TERMINAL_H
#define ZOE_PICTURE_TERMINAL_H

#include <stddef.h>

typedef enum zoe_terminal_kind {
    ZOE_TERMINAL_NONE,
    ZOE_TERMINAL_KITTY,
    ZOE_TERMINAL_ITERM,
    ZOE_TERMINAL_SIXEL
} zoe_terminal_kind;

/* What the terminal at standard error can show, told by its environment: ZOE_TERMINAL_NONE if it is
 * not known to show anything, if it is inside tmux or screen, or if there is no terminal. */
zoe_terminal_kind zoe_terminal_detect(void);

/* Shows rgb [height, width, 3]; scaled down if it is wider than the terminal or takes more than half
 * of its lines. Does nothing for ZOE_TERMINAL_NONE, and nothing unless standard error is a terminal
 * that shows messages for people. */
void zoe_terminal_show(zoe_terminal_kind kind, const unsigned char *rgb, size_t width,
                       size_t height);

#endif
