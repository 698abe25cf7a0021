hcq_driver_info drivers[8];
uint32_t count;
r = hcq_registry_drivers(NULL, drivers, 8, &count); /* opens no library */
for (uint32_t i = 0; i < count && r == HCQ_OK; i++) {
    hcq_driver *driver;
    hcq_device_info devices[16];
    uint32_t n = 0;
    if (hcq_driver_create_id(NULL, drivers[i].id, &driver) != HCQ_OK) { continue; }
    r = hcq_driver_devices(driver, devices, 16, &n);
    for (uint32_t k = 0; k < n && k < 16; k++) {
        printf("%s:%u  %s  %s\n", drivers[i].name, k, devices[k].name, devices[k].path);
    }
    hcq_driver_release(driver);
}
