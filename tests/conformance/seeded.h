/* seeded.h - what devices without threads (cpu-seeded) cannot be asked for: the tests that
   are left out there, by name. Part of conformance.c. */

static const struct { const char *reason, *names; } seeded_not[] = {
{"needs threads of its own",
    "closed_under_use opened_while_another_closes large_blocks_hold_nobody_up "
    "eager_calls_from_threads chain_on_a_small_stack callbacks_call_hcq "
    "calls_beside_a_waiting_thread closed_by_one_only unregister_while_created registry_from_threads "
    "notify_chain_on_a_small_stack waits_of_many_points waits_hear_the_end "
    "synchronize_covers_earlier_work explain_long_chains long_waits_explain_themselves "
    "device_references_in_threads memory_outlives_running_work a_raise_wakes_who_waits_for_it "
    "profile_starts_and_stops_under_load loggers_end_before_close fork_in_the_middle_of_a_call "
    "fork_beside_busy_threads profile_of_shared_grids threads_of_the_cpu "
    "meanwhile_a_graph_grows "},
{"a kernel or a host command of it waits for the host",
    "alloc_after_waits_for_last_users a_repeated_value_gets_one_answer "
    "copy_lane_overlaps_compute the_same_again_at_a_bad_time "
    "version_with_least_work_is_taken failed_alloc_keeps_the_users "
    "transfers_give_up_in_a_full_lane explain_the_wait_that_is_left explain_running "
    "explain_versions_in_use raised_by_lanes_in_turns "
    "the_end_does_not_wait_for_others close_with_failures_above_others "
    "notices_end_with_their_device queue_outlives_its_submit raises_are_found_at_once "
    "a_host_failure_begins_at_once a_lost_raise_takes_no_other empty_is_idle_before "
    "notify_on_every_lane "
    "bridge_stays_until_it_is_crossed any_number_in_flight numbers_to_come_are_told "
    "imports_of_one_memory launch_beside_other_work failed_launch_keeps_the_order "
    "freed_while_a_launch_needs_it device_of_a_running_launch_is_closed launch_is_explained "
    "no_timeout_is_silent any_number_of_running_lanes failures_in_every_order "
    "values_are_freed_meanwhile a_late_raise_tells_no_closed_device "},
{"opens devices with threads beside",
    "bound_here_submitted_there transfer_every_way transfers_need_little_memory "
    "listing_opens_nothing "
    "unregister_while_alive clock_by_submissions wait_over_backends_wakes "
    "long_calls_concern_one_device copies_between_any_devices far_copies_change "
    "far_copies_that_wait far_copies_wait_for_room "
    "freed_target_of_a_far_copy_stays ordinals_of_the_cpu defaults_of_a_description "},
{"measures what only time brings",
    "program_call_times graph_takes_its_time notify_handle "}};

/* Why the test is left out, or NULL. */
static const char *seeded_reason(const char *test) {
    char name[80];
    snprintf(name, sizeof name, "%s ", test);
    for (size_t i = 0; i < sizeof seeded_not / sizeof seeded_not[0]; i++) {
        const char *all = seeded_not[i].names, *at = strstr(all, name);
        while (at != NULL && at != all && at[-1] != ' ') {
            at = strstr(at + 1, name);
        }
        if (at != NULL) {
            return seeded_not[i].reason;
        }
    }
    return NULL;
}

static void seeded_skip(void **state) {
    const char *name = (const char *)*state;
    fprintf(stderr, "SKIP %s on cpu-seeded: %s\n", name, seeded_reason(name));
    skip();
}

static void seeded_leave_out(void) {
    for (uint32_t i = 0; i < test_count; i++) {
        if (seeded_reason(test_list[i].name) != NULL) {
            test_list[i].test_func = seeded_skip;
            test_list[i].setup_func = NULL;
            test_list[i].teardown_func = NULL;
        }
    }
}
