/* What ranks tell each other about themselves: that they live, that they have failed, that they have
 * closed. */
#include <stdio.h>
#include <stdlib.h>

#include "comm/mpi/world.h"

enum { TAG_CONTROL = 2 };

/* Seconds. */
static const double beat_every = 1.0, telling_at_most = 1.0, first_beat_later = 60.0;
/* Who is told lets go of the program only then: launchers end all ranks when one ends, and first of
 * all the rank in which it went wrong shall tell its user why. */
static const double told_waits = 0.5;

typedef enum word_kind {
    BEAT,   /* "I live", to the rank before */
    FAILED, /* with the world's sentence */
    HEARD,  /* "I know of your failure" */
    CLOSED, /* "I start no more exchanges", with the numbers of messages that I have posted for you */
    BYE     /* the last word, instead of a beat */
} word_kind;

struct zoe_mpi_word {
    zoe_mpi_word *next;
    MPI_Request request;
    struct {
        int32_t kind;
        int32_t gone; /* and culprit: the world's, as is lost */
        uint64_t sent, received, lost, culprit;
        char text[ZOE_MPI_SENTENCE];
    } said;
};

static size_t watcher(const zoe_mpi_world *w)
{
    return (w->base.rank + w->base.size - 1) % w->base.size;
}

static size_t watched(const zoe_mpi_world *w)
{
    return (w->base.rank + 1) % w->base.size;
}

/* Without memory the word is not said; who waits for it finds out by its silence. */
static void say(zoe_mpi_world *w, size_t to, word_kind kind)
{
    zoe_mpi_word *word = calloc(1, sizeof *word);
    if (!word)
        return;
    size_t bytes = offsetof(zoe_mpi_word, said.text) - offsetof(zoe_mpi_word, said);
    word->said.kind = (int32_t)kind;
    word->said.sent = w->peers[to].sent;
    word->said.received = w->peers[to].received;
    word->said.lost = w->lost;
    word->said.culprit = w->culprit.rank;
    word->said.gone = w->culprit.gone;
    if (kind == FAILED)
        bytes += (size_t)snprintf(word->said.text, sizeof word->said.text, "%s", w->failure) + 1;
    if (MPI_Isend(&word->said, (int)bytes, MPI_BYTE, (int)to, TAG_CONTROL, MPI_COMM_WORLD,
                  &word->request) != MPI_SUCCESS) {
        free(word);
        return;
    }
    word->next = w->words;
    w->words = word;
}

static int listen(zoe_mpi_world *w)
{
    return MPI_Irecv(&w->heard->said, sizeof w->heard->said, MPI_BYTE, MPI_ANY_SOURCE, TAG_CONTROL,
                     MPI_COMM_WORLD, &w->listening);
}

bool zoe_mpi_control_open(zoe_mpi_world *w)
{
    w->listening = MPI_REQUEST_NULL;
    w->peers = calloc(w->base.size, sizeof *w->peers);
    w->heard = calloc(1, sizeof *w->heard);
    if (!w->peers || !w->heard)
        return false;
    w->looked = zoe_mpi_now();
    w->silence = -first_beat_later; /* others may still be starting */
    return w->base.size == 1 || listen(w) == MPI_SUCCESS;
}

void zoe_mpi_control_close(zoe_mpi_world *w)
{
    if (w->listening != MPI_REQUEST_NULL) {
        MPI_Cancel(&w->listening);
        MPI_Wait(&w->listening, MPI_STATUS_IGNORE);
    }
}

void zoe_mpi_control_free(zoe_mpi_world *w)
{
    for (zoe_mpi_word *word = w->words, *next; word; word = next) {
        next = word->next;
        free(word);
    }
    free(w->heard);
    free(w->peers);
}

void zoe_mpi_check_peer(zoe_mpi_world *w, size_t peer)
{
    const zoe_mpi_peer *p = &w->peers[peer];
    if (p->closed && (p->received > p->will_send || p->sent > p->will_take)) {
        zoe_mpi_kind kind = zoe_mpi_ours(w);
        kind.culprit = (zoe_culprit){.rank = peer, .gone = true};
        zoe_mpi_fail(w, kind, "rank %zu has ended, though this rank was to exchange more with it",
                     peer);
    }
}

/* The failure of which a word tells. */
static zoe_mpi_kind told(const zoe_mpi_word *word)
{
    return (zoe_mpi_kind){
        .lost = (size_t)word->said.lost,
        .culprit = {.rank = (size_t)word->said.culprit, .gone = word->said.gone != 0}};
}

static void hear(zoe_mpi_world *w, size_t from)
{
    zoe_mpi_peer *peer = &w->peers[from];
    switch ((word_kind)w->heard->said.kind) {
    case BEAT: break;
    case FAILED:
        peer->heard = true;
        w->heard->said.text[ZOE_MPI_SENTENCE - 1] = '\0';
        zoe_mpi_fail(w, told(w->heard), "%s", w->heard->said.text);
        say(w, from, HEARD);
        break;
    case HEARD: peer->heard = true; break;
    case CLOSED:
        peer->closed = true;
        peer->will_send = w->heard->said.sent;
        peer->will_take = w->heard->said.received;
        zoe_mpi_check_peer(w, from);
        break;
    case BYE: w->farewell |= from == watched(w); break;
    }
    if (from == watched(w))
        w->silence = 0.0;
}

/* Frees the words that have arrived. */
static void tidy(zoe_mpi_world *w)
{
    for (zoe_mpi_word **p = &w->words; *p;) {
        zoe_mpi_word *word = *p;
        int done = 0;
        if (MPI_Test(&word->request, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS || done) {
            *p = word->next;
            free(word);
        } else {
            p = &word->next;
        }
    }
}

static bool is_said(const zoe_mpi_world *w, word_kind kind)
{
    const zoe_mpi_word *word = w->words;
    while (word && word->said.kind != (int32_t)kind)
        word = word->next;
    return word;
}

/* Each rank is watched by the one before it, so that of any that vanish together one is noticed. */
static void watch(zoe_mpi_world *w)
{
    const double now = zoe_mpi_now(), gone = now - w->looked;
    w->looked = now;
    if (!w->bye && now - w->beaten >= beat_every && !is_said(w, BEAT)) {
        say(w, watcher(w), BEAT);
        w->beaten = now;
    }
    /* A process that was stopped itself cannot blame others for what it has not heard. */
    w->silence += gone < 0.5 ? gone : 0.5;
    if (w->patience > 0.0 && !w->farewell && w->silence > w->patience) {
        zoe_mpi_kind kind = zoe_mpi_ours(w);
        kind.lost = watched(w);
        kind.culprit = (zoe_culprit){.rank = watched(w), .gone = true};
        zoe_mpi_fail(w, kind, "rank %zu has not been heard of for %.0f s", watched(w), w->patience);
    }
}

bool zoe_mpi_control(zoe_mpi_world *w)
{
    bool heard = false;
    if (w->base.size == 1)
        return false;
    for (int done = 1; done && w->listening != MPI_REQUEST_NULL;) {
        MPI_Status status;
        int error = MPI_Test(&w->listening, &done, &status);
        if (error == MPI_SUCCESS && done) {
            heard = true;
            hear(w, (size_t)status.MPI_SOURCE);
            error = listen(w);
        }
        if (error != MPI_SUCCESS) {
            zoe_mpi_fail_mpi(w, error, "listening");
            break;
        }
    }
    tidy(w);
    watch(w);
    return heard;
}

bool zoe_mpi_has_met(zoe_mpi_world *w)
{
    return w->base.size == 1 || (w->silence >= 0.0 && !is_said(w, BEAT));
}

bool zoe_mpi_tell(zoe_mpi_world *w)
{
    const double now = zoe_mpi_now();
    bool all = !w->words;
    if (!w->telling) {
        w->telling = true;
        w->deadline = now + (w->own ? telling_at_most : w->lost == SIZE_MAX ? told_waits : 0.0);
        for (size_t i = 0; w->own && i < w->base.size; i++)
            if (i != w->base.rank && i != w->lost)
                say(w, i, FAILED);
        return false;
    }
    for (size_t i = 0; w->own && i < w->base.size; i++)
        all &= i == w->base.rank || i == w->lost || w->peers[i].heard;
    return (all && w->own) || now > w->deadline;
}

bool zoe_mpi_leave(zoe_mpi_world *w)
{
    bool all = true;
    if (w->base.size == 1)
        return true;
    for (size_t i = 0; !w->closed && i < w->base.size; i++)
        if (i != w->base.rank)
            say(w, i, CLOSED);
    w->closed = true;
    for (size_t i = 0; i < w->base.size; i++)
        all &= i == w->base.rank || w->peers[i].closed;
    if (all && !w->bye) {
        w->bye = true;
        say(w, watcher(w), BYE);
    }
    return w->bye && w->farewell && !w->words;
}
