/* golden_rank_groups DIR, or the file in it: which ranks work together.
 *
 * DIR/rank_groups.json   cases {cfg, ulysses, ring, world} and of each kind all groups, as lists of
 *                        ranks in their order */
#include <jansson.h>
#include <stdlib.h>

#include "comm/comm.h"
#include "golden.h"

static size_t count_of(const json_t *object, const char *key)
{
    return (size_t)json_integer_value(json_object_get(object, key));
}

/* The list of the groups that rank is in; NULL if it is in none or in several. */
static const json_t *group_with(const json_t *groups, size_t rank)
{
    const json_t *found = NULL, *group, *member;
    size_t i, k;
    json_array_foreach(groups, i, group)
    {
        json_array_foreach(group, k, member)
        {
            if ((size_t)json_integer_value(member) == rank) {
                if (found)
                    return NULL;
                found = group;
            }
        }
    }
    return found;
}

/* NULL is the group of `rank` alone. */
static bool is_same(const zoe_comm *group, const json_t *list, size_t rank)
{
    if (!list || zoe_comm_size(group) != json_array_size(list))
        return false;
    for (size_t i = 0; i < zoe_comm_size(group); i++) {
        const size_t want = (size_t)json_integer_value(json_array_get(list, i));
        if ((group ? zoe_comm_world_rank(group, i) : rank) != want)
            return false;
        if (want == rank && zoe_comm_rank(group) != i)
            return false;
    }
    return true;
}

static void check_case(golden *g, const json_t *object)
{
    static const char *const keys[] = {"cfg_groups", "sp_groups", "ulysses_groups", "ring_groups"};
    const size_t cfg = count_of(object, "cfg"), ulysses = count_of(object, "ulysses");
    const size_t ring = count_of(object, "ring"), size = count_of(object, "world");
    zoe_world *world;
    golden_must(g, zoe_world_new(g->ctx, &world, size), "rank_groups");
    size_t wrong[4] = {0};
    for (size_t rank = 0; rank < size; rank++) {
        zoe_comm *own = zoe_world_comm(world, rank), *pair, *sequence;
        zoe_sequence s;
        golden_must(g, zoe_comm_group_every(g->ctx, &pair, own, ulysses * ring, cfg), "cfg");
        golden_must(g, zoe_comm_group_every(g->ctx, &sequence, own, 1, ulysses * ring), "sequence");
        golden_must(g, zoe_sequence_new(g->ctx, &s, sequence, ulysses, ring, false),
                    "ulysses, ring");
        const zoe_comm *const groups[] = {pair, sequence, s.ulysses, s.ring};
        for (size_t i = 0; i < 4; i++)
            wrong[i] +=
                !is_same(groups[i], group_with(json_object_get(object, keys[i]), rank), rank);
        zoe_sequence_free(&s);
        zoe_comm_group_free(sequence);
        zoe_comm_group_free(pair);
    }
    for (size_t i = 0; i < 4; i++)
        golden_check(g, keys[i], wrong[i] == 0,
                     "cfg %zu, ulysses %zu, ring %zu: %zu of %zu ranks wrong", cfg, ulysses, ring,
                     wrong[i], size);
    zoe_world_free(world);
}

int main(int argc, char **argv)
{
    golden g = golden_begin();
    const char *path = golden_folder(argc, argv);
    if (!golden_ends_with(path, ".json"))
        path = golden_path(path, "rank_groups.json");
    json_error_t error;
    json_t *cases = json_load_file(path, 0, &error);
    if (!json_is_array(cases))
        golden_check(&g, path, false, "%s", cases ? "no list" : error.text);
    for (size_t i = 0; i < json_array_size(cases); i++)
        check_case(&g, json_array_get(cases, i));
    json_decref(cases);
    return golden_end(&g);
}
